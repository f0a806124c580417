"""What models and people wrote of figures: caches of finished replies, and what of them describes a document's figures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from backends.models.language import Py3LangId
from backends.stores.objects import reading
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import ShardedCache
from pipeline.records.likenesses import Likenesses
from schemas.corpus import CONTEXT, PERSON, CaptionerKind
from schemas.documents import Chunk, PlacedFigure, Role
from schemas.errors import TransientError, UserError
from schemas.flags import Flag
from schemas.generation import Description
from schemas.parquet import rows_of, schema_of
from schemas.ports import ObjectStore
from schemas.versions import Spent
from tasks.enriching.caption import Wording, wording_of
from tasks.enriching.caption_quality import unaskable
from tasks.enriching.corrections import Corrected, CorrectionsError, match_corrections
from tasks.enriching.prompts import Surroundings
from tasks.enriching.spending import spent_on
from tasks.enriching.surroundings import surroundings

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
        figures: Returns the id and the SHA-1, or its last digits, of each figure of the version: a person's words are for one
            figure of all. They are asked for only where a person wrote something.

    Raises:
        UserError: A correction may be of several figures.
    """

    def __init__(self, workspace: Workspace, figures: Callable[[], Iterable[tuple[str, int]]]) -> None:
        self._workspace = workspace
        self._caches = {
            name: open_descriptions(workspace.store, used.captions.key) for name, used in workspace.captioners.items()
        }
        self._likenesses = {name: Likenesses(workspace, used) for name, used in workspace.captioners.items()}
        self._languages = Py3LangId()
        self._corrected = _corrected(workspace, figures) if workspace.corrections.entries else Corrected({}, ())

    @property
    def unmatched(self) -> int:
        """How many corrections are of no figure of the version."""
        return len(self._corrected.unmatched)

    def of(self, source: str, title: str, placed: Sequence[PlacedFigure], chunks: Sequence[Chunk]) -> dict[str, Wording]:
        """Return what describes the figures of a document, by figure; what its context alone describes is left out.

        Args:
            source: The document's first source, which chooses the captioner.
            title: Its title.
            placed: Its tagged figures.
            chunks: Its rows.
        """
        asked = figures_to_describe(placed)
        found = self._by_model(captioner_of(self._workspace, source), title, asked, chunks)
        people = self._corrected.by_figure
        return found | {name: Wording(PERSON, people[name]) for name in asked.keys() & people.keys()}

    def _by_model(
        self, name: str, title: str, asked: Mapping[str, PlacedFigure], chunks: Sequence[Chunk]
    ) -> dict[str, Wording]:
        if name == CONTEXT:
            return {}
        used = self._workspace.captioners[name]
        stand_ins = self._likenesses[name].of(asked.keys())
        known = {made.id: made for made in rows_of(Description, self._caches[name].read([*stand_ins.values()]))}
        found = {}
        for figure_id, figure in asked.items():
            around = surroundings(title, figure, chunks, language=used.options.language or "")
            made = known.get(stand_ins[figure_id])
            wording = wording_of(name, used.options.kind, used.prompt, around, made, self._languages)
            is_shared = made is not None and made.id != figure_id
            found[figure_id] = replace(wording, flags=(*wording.flags, Flag.SHARED)) if is_shared else wording
        return found


def _corrected(workspace: Workspace, figures: Callable[[], Iterable[tuple[str, int]]]) -> Corrected:
    try:
        return match_corrections(workspace.corrections, figures())
    except CorrectionsError as error:
        file = workspace.corpus.captions.corrections
        raise UserError(*(f"{file}: {mistake}" for mistake in error.args)) from error


def captioner_of(workspace: Workspace, source: str) -> str:
    """Return the name of the captioner that describes the figures of a document."""
    options = workspace.corpus.captions
    return next((name for glob, name in options.by_source.items() if fnmatchcase(source, glob)), options.captioner)


def figures_to_describe(figures: Iterable[PlacedFigure]) -> dict[str, PlacedFigure]:
    """Return the figures that have a row of their own, each where it stands first; no model sees decorations and icons."""
    found: dict[str, PlacedFigure] = {}
    for figure in figures:
        if figure.placement.role is Role.CONTENT and figure.placement.figure_id is not None:
            found.setdefault(figure.placement.figure_id, figure)
    return found


def figures_to_ask_about(figures: Iterable[PlacedFigure], kind: CaptionerKind) -> dict[str, PlacedFigure]:
    """Return those of them that a kind of captioner can say something of: one that reads words needs some."""
    found = figures_to_describe(figures)
    return {
        name: figure for name, figure in found.items() if unaskable(kind, Surroundings(words=figure.inner_text)) is None
    }


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
