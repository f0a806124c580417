"""Find and read corpus files.

Every mistake in a corpus file raises ``UserError`` with one line per mistake, so that a broken file never affects the others.
"""

import contextlib
import difflib
import functools
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import ValidationError

from backends.models.registry import EMBEDDERS
from schemas.base import Section
from schemas.corpus import Corpus
from schemas.errors import UserError
from schemas.gates import GATES
from schemas.printing import listed, without_secrets
from tasks.enriching.spaces import SPACES

MAX_BYTES = 128 << 10
"""Maximum bytes of a corpus file; parsing YAML takes a second for as many."""

_MAX_MISTAKES = 10
_MAX_SHOWN = 60


def corpora_folder() -> Path:
    """Return the folder of corpus files: ``$INSET_CORPORA``, or ``corpora`` in the working folder."""
    return Path(os.environ.get("INSET_CORPORA", "corpora")).absolute()


def corpus_files() -> list[Path]:
    """Return every ``.yaml`` entry of the folder, sorted; [] if there is no folder.

    Raises:
        UserError: The folder can't be read.
    """
    folder = corpora_folder()
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"can't list the corpus files in {folder}: {error.strerror}") from error
    # Editors write files that begin with a dot.
    return [file for file in entries if file.suffix == ".yaml" and not file.name.startswith(".")]


def find_corpus_file(name_or_path: str) -> Path:
    """Return the corpus file that a command names: ``NAME`` means ``corpora/NAME.yaml``, anything else is a path.

    Raises:
        UserError: There is no such file.
    """
    is_path = name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path
    path = Path(name_or_path).absolute() if is_path else corpora_folder() / f"{name_or_path}.yaml"
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        corpus_names = [file.stem for file in corpus_files()]
        hint = f"known here: {listed(corpus_names, 10)}" if corpus_names else "make one with: inset init"
        raise UserError(f"there is no corpus file {path}; {hint}") from error
    except OSError as error:
        raise UserError(f"{path}: this corpus file can't be read: {error.strerror}") from error
    return path


def load_corpus(name_or_path: str) -> Corpus:
    """Read and validate a corpus file, with relative paths resolved against its folder.

    Raises:
        UserError: The file is missing or wrong; the message has file, key and remedy, a line per mistake.
    """
    path = find_corpus_file(name_or_path)
    try:
        corpus = Corpus.model_validate(read_mapping(path))
    except ValidationError as error:
        mistakes = [f"{path}: {_mistake_in_words(mistake)}" for mistake in error.errors()]
        remainder = [f"{path}: {len(mistakes) - _MAX_MISTAKES} more mistakes"] if len(mistakes) > _MAX_MISTAKES else []
        raise UserError(*mistakes[:_MAX_MISTAKES], *remainder) from error
    _check_models(corpus, path)
    addresses = {"source": corpus.source or None, "store": corpus.store, "questions": corpus.questions}
    resolved = {key: _resolved_address(address, path, key) for key, address in addresses.items() if address is not None}
    resolved.setdefault("store", store_address(path))
    _check_addresses(resolved, path)
    sources = {name: _resolved_address(address, path, f"sources.{name}") for name, address in corpus.sources.items()}
    if corpus.experiment.endswith((".yaml", ".yml")):
        resolved["experiment"] = _resolved_address(corpus.experiment, path, "experiment")
    sections: dict[str, Section] = {}
    files = [("retrieval", "presets"), ("answer", "presets"), ("access", "table"), ("metadata", "table")]
    for section, key in files:
        options = getattr(corpus, section)
        if options is not None and (address := getattr(options, key)) is not None:
            sections[section] = options.model_copy(update={key: _resolved_address(address, path, f"{section}.{key}")})
    return corpus.model_copy(update=resolved | sections | {"sources": sources})


class QuerySettings:
    """The current settings of a corpus file, read again when it changes. Thread-safe.

    A file that can't be read, such as one half written, leaves the last settings.

    Args:
        file: The corpus file.
        corpus: Its content when it was opened.
    """

    def __init__(self, file: Path, corpus: Corpus) -> None:
        self._file = file
        self._stamp_and_corpus: tuple[tuple[int, int, int] | None, Corpus] = None, corpus

    def __call__(self) -> Corpus:
        """Return the current content; only settings that belong to no version may be read from it."""
        stamp, corpus = self._stamp_and_corpus
        with contextlib.suppress(OSError, UserError):
            file_status = self._file.stat()
            current_stamp = file_status.st_mtime_ns, file_status.st_size, file_status.st_ino
            if current_stamp != stamp:
                corpus = load_corpus(str(self._file))
                self._stamp_and_corpus = current_stamp, corpus
        return corpus


def read_mapping(
    path: Path, kind: str = "corpus file", needs: str = "it needs at least 'name' and 'source'. Make one with: inset init"
) -> dict[Any, Any]:
    """Return the mapping of a YAML file, not validated.

    Args:
        path: The file.
        kind: Kind of file, for messages.
        needs: Required keys, for messages.

    Raises:
        UserError: The file can't be read, or isn't a YAML mapping.
    """
    try:
        raw = yaml.load(_read(path, kind), _Loader)  # noqa: S506 - a safe loader
    except RecursionError as error:
        raise UserError(f"{path}: this is not YAML: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError) as error:
        mark, problem = getattr(error, "problem_mark", None), str(getattr(error, "problem", None) or error)
        place = f" line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}:{place} this is not YAML: {without_secrets(problem)[:300]}") from error
    if not isinstance(raw, dict):
        raise UserError(f"{path}: this is not a {kind}; {needs}")
    return raw


def _read(path: Path, kind: str) -> str:
    try:
        if path.exists() and not path.is_file():  # opening a FIFO would block
            raise UserError(f"{path}: this isn't a file, so it can't be a {kind}; remove it, or give it another name")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UserError(f"{path}: this is not a {kind}; it has more than {MAX_BYTES >> 10} KiB")
        text = data.decode("utf-8")
        yaml.reader.Reader(text)  # refuses control characters
    except OSError as error:
        raise UserError(f"{path}: this {kind} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{path}: line {line} this is not YAML: its bytes are not UTF-8; save the file as UTF-8") from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise UserError(f"{path}: line {line} this is not YAML: it holds the character #x{error.character:04x}") from error
    return text


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without dates: a revision such as 2024-01-31 stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _default_store(folder: Path) -> Path:
    return (folder.parent if folder.name == "corpora" else folder) / ".inset" / "store"


def store_address(path: Path, address: str | None = None) -> str:
    """Return where a corpus file keeps its corpora; ``address`` is its key ``store``.

    Raises:
        UserError: There is no such home folder.
    """
    return str(_default_store(path.parent)) if address is None else _resolved_address(address, path, "store")


def _resolved_address(address: str, file: Path, key: str) -> str:
    if "://" in address and not address.startswith("file://"):
        return address
    try:
        local = Path(address.removeprefix("file://")).expanduser()
    except RuntimeError as error:
        raise UserError(
            f"{file}: {key}: there is no home folder for {address.partition('/')[0]} on this machine"
        ) from error
    return os.path.normpath(file.parent / local)


def _check_models(corpus: Corpus, file: Path) -> None:
    mistakes = []
    for space in SPACES.values():
        model_name = space.model(corpus.embedding_models)
        try:
            if model_name is not None:
                EMBEDDERS[space.embeds].check(model_name)
        except UserError as error:
            mistakes.append(f"{file}: {error.message}")
    if mistakes:
        raise UserError(*mistakes)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a corpus file, for editors, with the known models."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Corpus.model_json_schema()}


def _check_addresses(addresses: dict[str, str], file: Path) -> None:
    """Refuse a store below a file, and questions that are no regular file, which might block."""
    for key, address in addresses.items():
        with contextlib.suppress(OSError):
            if key == "store" and not address.startswith("s3://"):
                existing_path = next(path for path in (Path(address), *Path(address).parents) if os.path.lexists(path))
                if not existing_path.is_dir():
                    raise UserError(f"{file}: store: {existing_path} is not a folder; name one, or s3://bucket/prefix")
            if key == "questions" and not stat.S_ISREG(Path(address).stat().st_mode):
                raise UserError(f"{file}: questions: {address} is not a file; name a JSONL file, or leave 'questions' out")


def _mistake_in_words(mistake: Any) -> str:
    key = without_secrets(".".join(str(part) for part in mistake["loc"]))[:200] or "file"
    earlier = re.sub(r"^models\.[^.]+\.", "models.NAME.", key)
    match mistake["type"]:
        case "extra_forbidden" if earlier in _earlier_keys():
            return f"{key}: {_earlier_keys()[earlier]}"
        case "string_type" if earlier in _earlier_keys() and isinstance(mistake["input"], dict):
            return f"{key}: {_earlier_keys()[earlier]}"
        case "extra_forbidden":
            known_keys = list(_section(mistake["loc"][:-1]).model_fields)
            similar_keys = difflib.get_close_matches(str(mistake["loc"][-1]), known_keys, n=1, cutoff=0.5)
            remedy = f"did you mean {similar_keys[0]!r}?" if similar_keys else f"known here: {', '.join(known_keys)}"
            return f"{key}: unknown key; {remedy}"
        case "missing":
            return f"{key}: this key is required; add '{mistake['loc'][-1]}: …'"
        case _:
            entered = mistake["input"]
            secret = key.endswith("_env") or (isinstance(entered, str) and ("@" in entered or "://" in entered))
            quoted = "" if secret or isinstance(entered, dict | list) else f" (found {_quoted(entered)})"
            return f"{key}: {mistake['msg'].removeprefix('Value error, ')}{quoted}"


@functools.cache
def _earlier_keys() -> dict[str, str]:
    """Return the keys of earlier releases, and what to do now."""
    return dict(yaml.safe_load(Path(__file__).with_name("earlier_keys.yaml").read_text(encoding="utf-8")))


def _quoted(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _section(location: tuple[int | str, ...]) -> type[Section]:
    """Return the model of the section at a location of a corpus file."""
    kind: Any = Corpus
    for part in location:
        is_mapping = get_origin(kind) is dict
        kind = get_args(kind)[-1] if is_mapping else kind.model_fields[str(part)].annotation
        if get_origin(kind) is not dict:
            kind = next(
                (argument for argument in get_args(kind) if isinstance(argument, type) and issubclass(argument, Section)),
                kind,
            )
    section: type[Section] = kind
    return section


SCHEMA_FILE = "corpus.schema.json"

_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# A corpus: what to index, how, and what a version must meet to be published. Only name and source are required;
# commented keys show the default. Relative paths count from this file.

name: {name}
source: {source}          # a folder, a glob such as docs/**/*.pdf, or s3://bucket/prefix

# store: {store}     # where all data is kept: a folder or s3://bucket/prefix
# schedule: "@daily"               # when Airflow refreshes; without it: manually
# questions: questions.jsonl       # golden questions: {{"id", "question", "doc", "pages", "answerable"}} a line

# parse:
#   passwords_env: PDF_PASSWORDS   # environment variable with passwords for encrypted PDFs, one a line
#   timeout_s: {timeout_s:g}                 # seconds one document may take, and one more for each page
#   memory_mb: {memory_mb}                # memory one document may take
# tags:
#   template: "{template}"   # or paper, for <image: filename(…)>; or one's own, with fields such as {{page}}
#   pdf: false                     # true: keep a copy of each PDF with a tag at every figure
# models:                          # each by a name of its own, which other sections and presets use
#   vlm: {{kind: vlm, model: NAME, revision: "1", endpoint: {{url: "http://localhost:8000/v1"}}}}
#   llm: {{kind: llm, model: NAME, revision: "1", endpoint: {{url: "http://localhost:8000/v1"}}}}
#   clip: {{kind: image_embedder, model: models/clip, revision: "1"}}      # of open_clip
#   colqwen: {{kind: late_embedder, model: models/colqwen2, revision: "1"}}
# captions:
#   ocr: {ocr}                  # recogniser of text in figures and on scanned pages; or none
#   captioner: context             # or a model that sees the pictures, such as vlm
#   pages: context                 # a row per page with its picture, described by its own text; or by a model
#   summaries: vlm                 # search a model's summary in place of each text
# embeddings:
#   text: minilm                   # packaged: minilm for English, multilingual for others; or a text_embedder of models
#   image: clip                    # pictures, searched by text
#   unified: mean                  # by that model: a picture and its text in one vector
#   late: colqwen                  # many vectors a picture, late interaction
# chunks:
#   tokens: {chunk_tokens}                    # maximum tokens of a chunk of text
# index:
#   engine: lancedb                # embedded; or weaviate, a server, with its url: http://localhost:8080
# retrieval:                       # applies to queries: a change here builds nothing
#   preset: pages                  # default preset; inset presets lists all
#   presets: presets               # a folder of own presets, one YAML file each
# operations:                      # in Airflow; see docs/guides/operate-in-airflow.md
#   approval_h: 12                 # hours to approve a version that a gate refused; null: it doesn't ask
# ray:
#   address: ray://host:10001      # a cluster; without it Ray runs here
# answer:                          # applies to queries: a change here builds nothing
#   model: llm                     # the model that writes answers; without it they are extractive
# gates:
{gates}
# budget:
#   calls: 1000                    # maximum calls of generative models in one refresh; or tokens, or money
# retention:
#   versions: {versions}
"""


def write_corpus_file(name: str, source: str) -> Path:
    """Write a commented corpus file and, beside it, its JSON Schema for editors.

    Args:
        name: The corpus's name.
        source: Its PDFs; a relative path counts from the working folder.

    Raises:
        UserError: The name is invalid, or the file exists.
    """
    path = corpora_folder() / f"{name}.yaml"
    local = "://" not in source
    try:
        corpus = Corpus(name=name, source=source)
    except ValidationError as error:
        raise UserError(*(_mistake_in_words(mistake) for mistake in error.errors())) from error
    text = _TEMPLATE.format(
        schema=SCHEMA_FILE,
        name=name,
        source=json.dumps(os.path.relpath(source, path.parent) if local else source, ensure_ascii=False),
        store=os.path.relpath(_default_store(path.parent), path.parent),
        timeout_s=corpus.parse.timeout_s,
        memory_mb=corpus.parse.memory_mb,
        template=corpus.tags.template,
        ocr=corpus.captions.ocr,
        chunk_tokens=corpus.chunks.tokens,
        gates="\n".join(f"#   {f'{gate.key}: {gate.default:g}':<30} # {gate.means}" for gate in GATES),
        versions=corpus.retention.versions,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        (path.parent / SCHEMA_FILE).write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    except FileExistsError as error:
        raise UserError(f"{path} is there already; edit it, or choose another name: inset init NAME") from error
    except OSError as error:
        raise UserError(f"can't write {path}: {error.strerror}") from error
    return path
