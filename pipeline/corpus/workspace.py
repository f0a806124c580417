"""A corpus opened for work: its store, its models' names, its keys and its engine, all from the corpus file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from backends.engines.analyser import ANALYSIS_VERSION
from backends.engines.lancedb_index import LanceIndex
from backends.engines.weaviate_index import WeaviateIndex
from backends.engines.weaviate_server import WeaviateServer
from backends.models.language import DETECTION_VERSION
from backends.models.registry import DETECTORS, EMBEDDERS, RECOGNISERS
from backends.stores.object_store import join, open_store
from backends.stores.objects import read_model
from backends.stores.sources import open_source, overlaps
from pipeline.corpus.corpora import find_corpus_file, load_corpus
from pipeline.corpus.corrections import read_corrections
from pipeline.corpus.prompts import find_prompt
from ray_jobs.page_pictures import drawn_key
from ray_jobs.parse_shard import attempt_key, parse_key
from schemas.corpus import CONTEXT, Collection, Corpus, IndexOptions, ModelCaptioner
from schemas.errors import UserError
from schemas.generation import Subject
from schemas.ids import collection_name, key, sha256, version_file
from schemas.ports import DocumentSource, ObjectStore, SearchIndex
from schemas.tags import TagTemplate
from schemas.versions import Captions, ModelCard, VectorSpace
from tasks.enriching.caption import CAPTION_VERSION
from tasks.enriching.caption_quality import QUALITY_VERSION
from tasks.enriching.chunk import CHUNK_VERSION
from tasks.enriching.corrections import Corrections
from tasks.enriching.language import LANGUAGE_VERSION
from tasks.enriching.page_rows import PAGES_VERSION
from tasks.enriching.prompts import PROMPT_VERSION, Prompt
from tasks.enriching.spaces import DEFAULT, SPACES
from tasks.figures.segment import SEGMENT_VERSION
from tasks.reading.structure import STRUCTURE_VERSION
from tasks.versions.assemble import ASSEMBLE_VERSION
from tasks.versions.check import CHECK_VERSION

CODE_VERSION = "0.1.0"
INDEX_FILE = "index.json"
INDEX_FOLDER = "lance"
"""The folder of a version that holds its embedded index."""


class Report(Protocol):
    """Is called with progress."""

    def __call__(self, step: str, done: int, total: int, spent: str = "", /) -> None:
        """Take note of how far a step is, and what it has spent so far, "" for a step that costs nothing."""
        ...


def silent(_step: str, _done: int, _total: int, _spent: str = "") -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Keys:
    """What each kind of finished work of a corpus is filed under; ``settings`` digests all that shapes a version.

    ``drawn`` is None where pages have no rows of their own.
    """

    parse: str
    attempt: str
    recognised: str
    segmented: str
    structured: str
    assembled: str
    settings: str
    drawn: str | None = None


@dataclass(frozen=True)
class CaptionerInUse:
    """A model that describes figures, pages or texts of the corpus, what it is asked, and where what it wrote is kept.

    ``name`` is the model's in the corpus file, which may describe several subjects by prompts of their own.
    """

    name: str
    options: ModelCaptioner
    prompt: Prompt
    captions: Captions

    @property
    def subject(self) -> Subject:
        """What it describes."""
        return self.captions.subject


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
    captioners: Mapping[str, CaptionerInUse]
    corrections: Corrections

    def captioner_of(self, subject: Subject, source: str) -> str | None:
        """Return the label of the captioner that describes figures, pages or texts of a source; None where no model does."""
        options = self.corpus.captions
        match subject:
            case "figure":
                fitting = (name for glob, name in options.by_source.items() if fnmatchcase(source, glob))
                name: str | None = next(fitting, options.captioner)
            case "page":
                name = options.pages
            case "text":
                name = options.summaries
        return None if name in (None, CONTEXT) else label(name, subject)

    def source(self) -> DocumentSource:
        """Open the place that the PDFs come from."""
        return open_source(self.corpus.source)

    def index(self, version: str) -> SearchIndex:
        """Open a version's physical collection, in the engine that holds it."""
        settled = self._settled(version)
        languages = settled.languages if settled else ()
        return open_index(self.store.root, self.corpus.name, version, self._reached(settled), languages)

    def index_options(self, version: str) -> IndexOptions:
        """Return where a version's collection is: what ``settle_index`` wrote, not what the file says now.

        Only how its server is reached comes from the file, where that names the same one.
        """
        return self._reached(self._settled(version))

    def _settled(self, version: str) -> Collection | None:
        try:
            return read_model(self.store, version_file(version, INDEX_FILE), Collection)
        except FileNotFoundError:
            return None

    def _reached(self, settled: Collection | None) -> IndexOptions:
        if settled is None:
            return IndexOptions()
        now = self.corpus.index
        if now.url == settled.url:
            return now.model_copy(update=settled.shape())
        return IndexOptions(**settled.model_dump(exclude={"languages"}))

    def reach_engine(self) -> None:
        """Raise where the engine that the corpus file names can't be had, before anything is spent on a version for it.

        Raises:
            TransientError: Its server doesn't answer.
            UserError: It is too old, or the API key isn't there.
        """
        if self.corpus.index.engine == "weaviate":
            open_server(self.corpus.index).release()

    def settle_index(self, version: str, languages: Iterable[str] = ()) -> None:
        """Write down where a version's collection is going to be, and in which languages, before there is anything of it."""
        collection = Collection(**self.corpus.index.model_dump(), languages=sorted(languages))
        self.store.replace(version_file(version, INDEX_FILE), collection.model_dump_json().encode())

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


def open_index(
    store_root: str, corpus: str, version: str, options: IndexOptions, languages: Sequence[str] = ()
) -> SearchIndex:
    """Open a version's collection in its engine; ``languages`` are those of its documents."""
    name = collection_name(corpus, version)
    if options.engine == "weaviate":
        server = open_server(options)
        return WeaviateIndex(server, name, exact=options.exact, replicas=options.replicas, languages=languages)
    return LanceIndex(join(store_root, version_file(version, INDEX_FOLDER)), name, languages=languages)


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
    spaces, captioners = _spaces(corpus), _captioners(corpus, file)
    corrections = _corrections(corpus)
    return Workspace(
        corpus=corpus,
        file=file,
        store=open_store(join(corpus.store or "", corpus.name)),
        keys=_keys(corpus, recogniser, detector, spaces, captioners, corrections),
        recogniser=recogniser,
        detector=detector,
        spaces=spaces,
        captioners=captioners,
        corrections=corrections,
    )


def _spaces(corpus: Corpus) -> dict[str, VectorSpace]:
    found = {}
    for space in SPACES.values():
        named = space.model(corpus.embeddings)
        if named is not None:
            card = EMBEDDERS[space.embeds].find(named).card()
            settings = dict(named.settings)
            # Without any, the key is what it always was: its vectors are still right.
            used = {"settings": settings} if settings else {}
            made = key(model=card.model_dump(), step=space.version, **used)
            found[space.name] = VectorSpace(model=card, key=made, settings=settings)
    return found


def _corrections(corpus: Corpus) -> Corrections:
    address = corpus.captions.corrections
    return read_corrections(address, TagTemplate(corpus.tags.template)) if address else Corrections()


def _captioners(corpus: Corpus, file: Path) -> dict[str, CaptionerInUse]:
    options = corpus.captions
    named: list[tuple[Subject, set[str | None]]] = [
        ("figure", {options.captioner, *options.by_source.values()}),
        ("page", {options.pages}),
        ("text", {options.summaries}),
    ]
    return {
        label(name, subject): _captioner(name, options.models[name], subject, file)
        for subject, names in named
        for name in sorted(found for found in names if found not in (None, CONTEXT))
    }


def label(name: str, subject: Subject) -> str:
    """Name what describes a subject, so that one model may describe several."""
    return name if subject == "figure" else f"{name} ({subject}s)"


def _captioner(name: str, options: ModelCaptioner, subject: Subject, file: Path) -> CaptionerInUse:
    setting = f"{file}: captions.models.{name}.prompt"
    found = find_prompt(options.prompt, file.parent, subject=subject, kind=options.kind, setting=setting)
    prompt = replace(found, subject=subject)
    card = ModelCard(name=options.model, revision=options.revision)
    made = key(
        model=card.model_dump(),
        asked=options.model_dump(include=_ASKED),
        prompt=prompt.digest,
        step=PROMPT_VERSION,
    )
    return CaptionerInUse(name, options, prompt, Captions(model=card, key=made, subject=subject))


_ASKED = {"kind", "temperature", "top_p", "max_tokens", "max_side_px", "language"}
"""What an answer depends on beside the model and the prompt; how the model is reached, and what it costs, is no part of it."""


def _keys(
    corpus: Corpus,
    recogniser: ModelCard | None,
    detector: ModelCard | None,
    spaces: Mapping[str, VectorSpace],
    captioners: Mapping[str, CaptionerInUse],
    corrections: Corrections,
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
        tokens_by=spaces[DEFAULT.name].model.model_dump(),
    )
    drawn = drawn_key() if corpus.captions.pages is not None else None
    assembled = key(
        structured=structured,
        captions=_descriptions(corpus, captioners, corrections, drawn),
        tags=corpus.tags.model_dump(),
        step=ASSEMBLE_VERSION,
        laws=CHECK_VERSION,
        language=[DETECTION_VERSION, LANGUAGE_VERSION],
    )
    # What failed at any step is worth another try once any step before a version, or a law, is another.
    attempt = key(parse=attempt_key(corpus.parse), assembled=assembled)
    settings = key(
        assembled=assembled,
        attempt=attempt,
        vectors={name: space.key for name, space in spaces.items()},
        index=corpus.index.shape(),
        terms=ANALYSIS_VERSION,
        gates=corpus.gates.model_dump(),
        questions=questions_digest(corpus.questions),
    )
    return Keys(parse, attempt, recognised, segmented, structured, assembled, settings, drawn)


def _descriptions(
    corpus: Corpus, captioners: Mapping[str, CaptionerInUse], corrections: Corrections, drawn: str | None
) -> dict[str, object]:
    """Return all that descriptions in rows, and the rows of pages, depend on beside their document."""
    options = corpus.captions
    # Where there are none, the key is what it was before there were any.
    pages = {} if options.pages is None else {"pages": [options.pages, drawn, PAGES_VERSION]}
    summaries = {} if options.summaries is None else {"summaries": options.summaries}
    return {
        **pages,
        **summaries,
        "step": CAPTION_VERSION,
        "captioner": options.captioner,
        "by_source": [*options.by_source.items()],
        "models": {name: [used.captions.key, used.prompt.expected] for name, used in captioners.items()},
        "near_duplicates": options.near_duplicates,
        "quality": QUALITY_VERSION if captioners else None,
        "corrections": corrections.digest if corrections.entries else None,
    }


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
