"""What models and people wrote of figures: caches of finished replies, and what of them describes a document's figures."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from backends.stores.objects import reading
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import ShardedCache
from schemas.corpus import CONTEXT, PERSON
from schemas.documents import Figure, PlacedFigure, Role
from schemas.errors import TransientError
from schemas.generation import Description
from schemas.parquet import rows_of, schema_of
from schemas.ports import ObjectStore
from schemas.versions import Spent
from tasks.enriching.caption import Wording, wording_of
from tasks.enriching.spending import spent_on

_FOLDER = "captions"

SPENT = "SPENT"
"""The object that counts what all refreshes of a corpus have spent."""


def open_descriptions(store: ObjectStore, key: str) -> ShardedCache:
    """Open the replies of one captioner."""
    return ShardedCache(store, f"{_FOLDER}/{key}", schema_of(Description))


class Descriptions:
    """What is known of figures beside their documents; the caches of captioners are opened once.

    Args:
        workspace: The corpus.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._caches = {
            name: open_descriptions(workspace.store, used.captions.key) for name, used in workspace.captioners.items()
        }
        self._corrected = {name: Wording(PERSON, text) for name, text in workspace.corrections.items()}

    def of(self, source: str, placed: Sequence[PlacedFigure], figures: Sequence[Figure]) -> dict[str, Wording]:
        """Return what describes the figures of a document, by figure; what its context alone describes is left out.

        Args:
            source: The document's first source, which chooses the captioner.
            placed: Its tagged figures.
            figures: Their pixels' digests, from which their tags' numbers follow.
        """
        made = self._by_model(captioner_of(self._workspace, source), placed)
        return made | self._by_people(figures)

    def _by_model(self, name: str, placed: Sequence[PlacedFigure]) -> dict[str, Wording]:
        if name == CONTEXT:
            return {}
        used = self._workspace.captioners[name]
        asked = figures_to_describe(placed, "vlm")
        known = {made.id: made for made in rows_of(Description, self._caches[name].read([*asked]))}
        return {
            figure_id: wording_of(name, used.options, used.prompt, figure, known.get(figure_id))
            for figure_id, figure in asked.items()
        }

    def _by_people(self, figures: Sequence[Figure]) -> dict[str, Wording]:
        return {}


def captioner_of(workspace: Workspace, source: str) -> str:
    """Return the name of the captioner that describes the figures of a document."""
    options = workspace.corpus.captions
    return next((name for glob, name in options.by_source.items() if fnmatchcase(source, glob)), options.captioner)


def figures_to_describe(figures: Iterable[PlacedFigure], kind: str) -> dict[str, PlacedFigure]:
    """Return the figures that a kind of captioner can say something of, each where it stands first.

    Only what has a row of its own is described: a decoration or an icon is never shown to a model. One that reads words needs
    some.
    """
    found: dict[str, PlacedFigure] = {}
    for figure in figures:
        named = figure.placement.figure_id
        if figure.placement.role is Role.CONTENT and named and (kind != "ocr_llm" or figure.inner_text.strip()):
            found.setdefault(named, figure)
    return found


def read_spent(store: ObjectStore) -> Spent:
    """Return what all refreshes of the corpus have spent on generative models.

    Where that is nowhere written, because it was damaged, it is what the descriptions cost that are still kept.
    """
    found = _read_spent(store)
    return found[0] if found else _spent_on_what_is_kept(store)


def add_spent(store: ObjectStore, spent: Spent) -> None:
    """Count what was spent just now. Only the holder of the lease spends, so nobody else writes meanwhile."""
    found = _read_spent(store)
    total = found[0] + spent if found else _spent_on_what_is_kept(store)
    if not store.swap(SPENT, total.model_dump_json().encode(), found[1] if found else None):
        raise TransientError(f"another run spends at {store.root}/{SPENT} as well; refresh again when it is done")


def _read_spent(store: ObjectStore) -> tuple[Spent, str] | None:
    found = store.read_mutable(SPENT)
    if found is None:
        return None
    with reading(store, SPENT):
        return Spent.model_validate_json(found[0]), found[1]


def _spent_on_what_is_kept(store: ObjectStore) -> Spent:
    total = Spent()
    for key in store.folders(_FOLDER):
        for shard in open_descriptions(store, key).shards():
            total += spent_on(rows_of(Description, shard))
    return total
