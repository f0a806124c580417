"""A corpus opened for work: its store, its models' names, its keys and its engine, all from the corpus file."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from backends.engines.lancedb_index import LanceIndex
from backends.engines.weaviate_index import WeaviateIndex
from backends.engines.weaviate_server import WeaviateServer
from backends.models.registry import DETECTORS, RECOGNISERS, TEXT_EMBEDDERS
from backends.stores.object_store import join, open_store
from backends.stores.objects import read_model
from backends.stores.sources import open_source, overlaps
from pipeline.corpus.corpora import find_corpus_file, load_corpus
from ray_jobs.parse_shard import attempt_key, parse_key
from schemas.corpus import Collection, Corpus, IndexOptions
from schemas.errors import UserError
from schemas.ids import collection_name, key, sha256, version_file
from schemas.ports import DocumentSource, ObjectStore, SearchIndex
from schemas.versions import ModelCard, VectorSpace
from tasks.enriching.caption import CAPTION_VERSION
from tasks.enriching.captioners import CAPTIONERS
from tasks.enriching.chunk import CHUNK_VERSION
from tasks.enriching.spaces import SPACES, TEXT
from tasks.figures.segment import SEGMENT_VERSION
from tasks.reading.structure import STRUCTURE_VERSION
from tasks.versions.assemble import ASSEMBLE_VERSION
from tasks.versions.check import CHECK_VERSION

CODE_VERSION = "0.1.0"
INDEX_FILE = "index.json"

Report = Callable[[str, int, int], None]
"""Called with progress: step, done, total."""


def silent(_step: str, _done: int, _total: int) -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Keys:
    """What each kind of finished work of a corpus is filed under; ``settings`` digests all that shapes a version."""

    parse: str
    attempt: str
    recognised: str
    segmented: str
    structured: str
    assembled: str
    settings: str


@dataclass(frozen=True)
class Workspace:
    """A corpus opened for work; what its methods name is opened when they are called."""

    corpus: Corpus
    file: Path
    store: ObjectStore
    keys: Keys
    recogniser: ModelCard | None
    detector: ModelCard | None
    spaces: Mapping[str, VectorSpace]

    def source(self) -> DocumentSource:
        """Open the place that the PDFs come from."""
        return open_source(self.corpus.source)

    def index(self, version: str) -> SearchIndex:
        """Open a version's physical collection, in the engine that holds it."""
        return open_index(self.store.root, self.corpus.name, version, self.index_options(version))

    def index_options(self, version: str) -> IndexOptions:
        """Return where a version's collection is: what ``settle_index`` wrote, not what the file says now.

        Only how its server is reached comes from the file, where that names the same one.
        """
        try:
            settled = read_model(self.store, version_file(version, INDEX_FILE), Collection)
        except FileNotFoundError:
            return IndexOptions()
        now = self.corpus.index
        return now.model_copy(update=settled.shape()) if now.url == settled.url else IndexOptions(**settled.model_dump())

    def reach_engine(self) -> None:
        """Raise where the engine that the corpus file names can't be had, before anything is spent on a version for it.

        Raises:
            TransientError: Its server doesn't answer.
            UserError: It is too old, or the API key isn't there.
        """
        if self.corpus.index.engine == "weaviate":
            open_server(self.corpus.index).release()

    def settle_index(self, version: str) -> None:
        """Write down where a version's collection is going to be, before there is anything of it."""
        self.store.replace(version_file(version, INDEX_FILE), self.corpus.index.model_dump_json().encode())

    def passwords(self) -> list[str]:
        """Return the passwords to try on encrypted documents, from the environment.

        Raises:
            UserError: The corpus file names a variable that isn't set.
        """
        name = self.corpus.parse.passwords_env
        if name is None:
            return []
        if name not in os.environ:
            raise UserError(
                f"{self.file}: parse.passwords_env names {name}, which is not set; export it, a password a line"
            )
        return [line for line in os.environ[name].splitlines() if line]


def open_index(store_root: str, corpus: str, version: str, options: IndexOptions) -> SearchIndex:
    """Open a version's collection in its engine."""
    name = collection_name(corpus, version)
    if options.engine == "weaviate":
        return WeaviateIndex(open_server(options), name, exact=options.exact, replicas=options.replicas)
    return LanceIndex(join(store_root, version_file(version, "lance")), name)


def open_server(options: IndexOptions) -> WeaviateServer:
    """Name the server that holds a version's collection."""
    return WeaviateServer(options.url or "", options.grpc_port, options.api_key_env)


def open_workspace(name_or_path: str) -> Workspace:
    """Open a corpus by name or file.

    Raises:
        UserError: The file is missing or wrong.
    """
    file = find_corpus_file(name_or_path)
    return opened(load_corpus(str(file)), file)


def opened(corpus: Corpus, file: Path) -> Workspace:
    """Open a corpus as its file describes it.

    Raises:
        UserError: What it describes can't be.
    """
    if overlaps(corpus.source, corpus.store or ""):
        raise UserError(
            f"{file}: source {corpus.source} and store {corpus.store} overlap, so what is kept would be indexed; "
            f"name a 'store' elsewhere"
        )
    recogniser, detector = RECOGNISERS.card(corpus.captions), DETECTORS.card(corpus.captions)
    spaces = _spaces(corpus)
    return Workspace(
        corpus=corpus,
        file=file,
        store=open_store(join(corpus.store or "", corpus.name)),
        keys=_keys(corpus, recogniser, detector, spaces),
        recogniser=recogniser,
        detector=detector,
        spaces=spaces,
    )


def _spaces(corpus: Corpus) -> dict[str, VectorSpace]:
    found = {}
    for space in SPACES.values():
        named = space.model(corpus.embeddings)
        if named is not None:
            card = TEXT_EMBEDDERS.find(named).card()
            found[space.name] = VectorSpace(model=card, key=key(model=card.model_dump(), step=space.version))
    return found


def _keys(
    corpus: Corpus, recogniser: ModelCard | None, detector: ModelCard | None, spaces: Mapping[str, VectorSpace]
) -> Keys:
    parse = parse_key(corpus.parse)
    recognised = key(model=recogniser.model_dump() if recogniser else None)
    segmented = key(model=detector.model_dump() if detector else None, step=SEGMENT_VERSION)
    structured = key(
        parse=parse,
        recognised=recognised,
        segmented=segmented,
        structure=STRUCTURE_VERSION,
        chunk=CHUNK_VERSION,
        chunks=corpus.chunks.model_dump(),
        tokens_by=spaces[TEXT.name].model.model_dump(),
    )
    assembled = key(
        structured=structured,
        captions=[corpus.captions.captioner, CAPTIONERS[corpus.captions.captioner].version, CAPTION_VERSION],
        tags=corpus.tags.model_dump(),
        step=ASSEMBLE_VERSION,
        laws=CHECK_VERSION,
    )
    # What failed at any step is worth another try once any step before a version, or a law, is another.
    attempt = key(parse=attempt_key(corpus.parse), assembled=assembled)
    settings = key(
        assembled=assembled,
        attempt=attempt,
        vectors={name: space.key for name, space in spaces.items()},
        index=corpus.index.shape(),
        gates=corpus.gates.model_dump(),
        questions=questions_digest(corpus.questions),
    )
    return Keys(parse, attempt, recognised, segmented, structured, assembled, settings)


def questions_digest(path: str | None) -> str | None:
    """Digest the golden questions, so that other questions mean another judgement; None where there are none.

    Raises:
        UserError: The file that the corpus names isn't there.
    """
    if path is None:
        return None
    try:
        return sha256(Path(path).read_bytes())[:16]
    except OSError as error:
        raise UserError(f"questions: can't read {path}; correct 'questions' in the corpus file, or leave it out") from error
