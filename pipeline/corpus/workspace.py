"""An open corpus: its store, keys, model cards and engine, from its corpus file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backends.engines.lancedb_index import LanceIndex
from backends.engines.weaviate_index import WeaviateIndex
from backends.engines.weaviate_server import WeaviateServer
from backends.models import rapidocr_recogniser
from backends.models.registry import EMBEDDERS
from backends.stores.checked_store import join
from backends.stores.document_files import structured_file
from backends.stores.object_store import open_store
from backends.stores.objects import read_model
from backends.stores.s3_store import read_object, s3_client, s3_errors
from backends.stores.sources import open_source, overlaps
from pipeline.corpus.corpora import find_corpus_file, load_corpus
from pipeline.corpus.keys import Keys, keys_of
from pipeline.corpus.prompts import CaptionerInUse, captioners_of
from schemas.corpus import Collection, Corpus, IndexOptions
from schemas.corrections import StoredCorrection
from schemas.errors import UserError
from schemas.ids import collection_name, key, version_file
from schemas.models import NONE, Subject
from schemas.ports import DocumentSource, ObjectStore, SearchIndex
from schemas.versions import ModelCard, VectorSpace
from tasks.enriching.spaces import SPACES
from tasks.reading.correct import CORRECT_VERSION

INDEX_FILE = "index.json"
INDEX_FOLDER = "lance"
"""Folder of a version's embedded index."""

ByDocument = Mapping[str, Sequence[StoredCorrection]]
"""The corrections in the store of documents that have any, by document id."""


@dataclass(frozen=True)
class Workspace:
    """An open corpus; its methods open source and index. ``by_hand`` are the corrections in its store."""

    corpus: Corpus
    file: Path
    store: ObjectStore
    keys: Keys
    recogniser: ModelCard | None
    spaces: Mapping[str, VectorSpace]
    captioners: Mapping[str, CaptionerInUse]
    by_hand: ByDocument = field(default_factory=dict)

    def structured_file(self, doc_id: str) -> str:
        """Name the file of a structured document."""
        return corrected_file(doc_id, self.keys.structured, self.by_hand)

    def captioner_of(self, subject: Subject) -> str | None:
        """Return the label of the captioner for a subject; None if no model describes it."""
        return next((label for label, captioner in self.captioners.items() if captioner.subject == subject), None)

    def source(self) -> DocumentSource:
        """Open the source of the PDFs."""
        return open_source(self.corpus.source_address)

    def index(self, version: str) -> SearchIndex:
        """Open a version's collection in its engine."""
        stored = self._stored_options(version)
        options = self._with_connection(stored)
        return open_index(self.store.root, self.corpus.name, version, options, stored.languages, stored.collection)

    def collection(self, version: str) -> str:
        """Return the name of a version's collection in its engine."""
        return self._stored_options(version).collection or collection_name(self.corpus.name, version)

    def forwarded_from(self, version: str) -> str | None:
        """Return the version whose collection was brought forward to this one; None if none was."""
        return self._stored_options(version).forwarded_from

    def is_taken(self, version: str) -> bool:
        """Return whether a version has no collection: its own became another's, was dropped, or isn't complete yet."""
        return self._stored_options(version).is_taken

    def index_options(self, version: str) -> IndexOptions:
        """Return a version's stored index options; only the connection comes from the corpus file."""
        return self._with_connection(self._stored_options(version))

    def _with_connection(self, stored: Collection) -> IndexOptions:
        now = self.corpus.index
        if now.url == stored.url:
            return now.model_copy(update=stored.shape())
        return IndexOptions(**stored.model_dump(include={*IndexOptions.model_fields}))

    def _stored_options(self, version: str) -> Collection:
        try:
            return read_model(self.store, version_file(version, INDEX_FILE), Collection)
        except FileNotFoundError:
            return Collection()

    def reach_engine(self) -> None:
        """Raise if the engine of the corpus file isn't usable.

        Raises:
            TransientError: Its server doesn't answer.
            UserError: It is too old, or the API key is missing.
        """
        if self.corpus.index.engine == "weaviate":
            open_server(self.corpus.index).release()

    def is_half_done(self, version: str) -> bool:
        """Return whether somebody began to bring a kept version's rows back, in the collection of another."""
        return self.is_taken(version) and self.forwarded_from(version) is not None

    def collections_of_others(self, version: str) -> set[str]:
        """Return the names of the collections that other versions have, or that somebody began to bring back to one."""
        other_versions = [name for name in self.store.folders("versions") if name != version]
        return {self.collection(name) for name in other_versions if not self.is_taken(name) or self.is_half_done(name)}

    def write_index_options(self, version: str, languages: Iterable[str] = (), forwarded_from: str | None = None) -> None:
        """Write a version's index options and languages, before its collection is made; a taken version stays taken.

        ``forwarded_from`` is the version whose collection is brought forward.
        """
        options = Collection(
            **self.corpus.index.model_dump(),
            languages=sorted(languages),
            collection=self.collection(forwarded_from) if forwarded_from else self._free_name(version),
            forwarded_from=forwarded_from,
            is_taken=self.is_taken(version),
        )
        self._store_options(version, options)

    def _free_name(self, version: str) -> str | None:
        """Return a name for a version's new collection where another version has the one that bears its name; else None."""
        used_names = self.collections_of_others(version)
        name = default_name = collection_name(self.corpus.name, version)
        while name in used_names:
            name += "B"
        return None if name == default_name else name

    def complete_collection(self, version: str) -> None:
        """Note that a version's collection, which was brought back, may be read."""
        if self.is_taken(version):
            self._store_options(version, self._stored_options(version).model_copy(update={"is_taken": False}))

    def give_up_collection(self, version: str) -> None:
        """Note that a version's collection isn't its own any more, before it is changed or dropped."""
        update = {"is_taken": True, "collection": None, "forwarded_from": None}
        self._store_options(version, self._stored_options(version).model_copy(update=update))

    def _store_options(self, version: str, options: Collection) -> None:
        self.store.replace(version_file(version, INDEX_FILE), options.model_dump_json().encode())

    def passwords(self) -> list[str]:
        """Return the passwords for encrypted documents, from the environment.

        Raises:
            UserError: The variable named in the corpus file isn't set.
        """
        name = self.corpus.parse.passwords_env
        if name is None:
            return []
        if name not in os.environ:
            raise UserError(
                f"{self.file}: parse.passwords_env names {name}, which is not set; export it, a password a line"
            )
        return [line for line in os.environ[name].splitlines() if line]

    def passwords_set(self) -> tuple[str, ...]:
        """Return the passwords; () where they aren't set here: encrypted documents can't be read then."""
        try:
            return tuple(self.passwords())
        except UserError:
            return ()


def corrected_file(doc_id: str, structured_key: str, by_hand: ByDocument) -> str:
    """Name the file of a structured document with its corrections: those of another document leave it as it is."""
    if ids := [correction.id for correction in by_hand.get(doc_id, ())]:
        structured_key = key(structured=structured_key, corrections=ids, step=CORRECT_VERSION)
    return structured_file(doc_id, structured_key)


def open_index(
    store_root: str,
    corpus: str,
    version: str,
    options: IndexOptions,
    languages: Sequence[str] = (),
    collection: str | None = None,
) -> SearchIndex:
    """Open a version's collection in its engine; ``languages`` are its documents', ``collection`` as in ``Collection``."""
    name = collection or collection_name(corpus, version)
    if options.engine == "weaviate":
        server = open_server(options)
        return WeaviateIndex(server, name, replicas=options.replicas, languages=languages)
    return LanceIndex(join(store_root, version_file(version, INDEX_FOLDER)), name, languages=languages)


def open_server(options: IndexOptions) -> WeaviateServer:
    """Return the server of a version's collection."""
    return WeaviateServer(options.url or "", options.grpc_port, options.api_key_env)


def open_workspace(name_or_path: str) -> Workspace:
    """Open a corpus by name or file.

    Raises:
        UserError: The file is missing or wrong.
    """
    file = find_corpus_file(name_or_path)
    return open_corpus(load_corpus(str(file)), file)


def open_corpus(corpus: Corpus, file: Path) -> Workspace:
    """Open a corpus from its validated file.

    Raises:
        UserError: Source and store overlap, or a setting of the file can't be used.
    """
    if overlaps(corpus.source_address, corpus.store or ""):
        raise UserError(
            f"{file}: source {corpus.source_address} and store {corpus.store} overlap, so stored files would be indexed; "
            f"name a 'store' elsewhere"
        )
    recogniser = None if corpus.captions.ocr == NONE else rapidocr_recogniser.CARD
    spaces, captioners = _spaces(corpus), captioners_of(corpus, file)
    return Workspace(
        corpus=corpus,
        file=file,
        store=open_store(join(corpus.store or "", corpus.name)),
        keys=keys_of(corpus, recogniser, spaces, captioners),
        recogniser=recogniser,
        spaces=spaces,
        captioners=captioners,
    )


def _spaces(corpus: Corpus) -> dict[str, VectorSpace]:
    spaces = {}
    for space in SPACES.values():
        model_name = space.model(corpus.embedding_models)
        if model_name is not None:
            card = EMBEDDERS[space.embeds].find(model_name).card()
            settings = dict(model_name.settings)
            key_settings = {"settings": settings} if settings else {}
            space_key = key(model=card.model_dump(), step=space.version, layout="documents", **key_settings)
            spaces[space.name] = VectorSpace(model=card, key=space_key, settings=settings)
    return spaces


def read_own_file(address: str, key: str, most_bytes: int) -> bytes:
    """Read a file that a key of the corpus file names: an absolute path or ``s3://bucket/key``.

    Raises:
        UserError: It is missing, larger than ``most_bytes``, or can't be read.
        TransientError: Its bucket can't be reached.
    """
    try:
        if address.startswith("s3://"):
            bucket, _, name = address.removeprefix("s3://").partition("/")
            with s3_errors(f"s3://{bucket}", name):
                content = read_object(s3_client(), bucket, name)[0]
        else:
            if Path(address).exists() and not Path(address).is_file():
                raise UserError(f"{key}: {address} is not a file")
            with Path(address).open("rb") as file:
                content = file.read(most_bytes + 1)
    except FileNotFoundError as error:
        raise UserError(f"{key}: there is no file {address}") from error
    except OSError as error:
        raise UserError(f"{key}: {address} can't be read: {error.strerror or error}") from error
    if len(content) > most_bytes:
        raise UserError(f"{key}: {address} has more than {most_bytes >> 20} MiB")
    return content
