"""Find and read corpus files."""

import difflib
import json
import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from schemas.corpus import Corpus, Section, json_schema
from schemas.errors import UserError


def corpora_folder() -> Path:
    """Return the folder of corpus files: ``$INSET_CORPORA``, or ``corpora`` in the working folder."""
    return Path(os.environ.get("INSET_CORPORA", "corpora")).absolute()


def corpus_files() -> list[Path]:
    """Return every corpus file of that folder, sorted; [] where there is no such folder."""
    return sorted(corpora_folder().glob("*.yaml"))


def find_corpus_file(name_or_path: str) -> Path:
    """Return the corpus file that a command names: ``NAME`` means ``corpora/NAME.yaml``, anything else is a path.

    Raises:
        UserError: There is no such file.
    """
    is_path = name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path
    path = Path(name_or_path).absolute() if is_path else corpora_folder() / f"{name_or_path}.yaml"
    if path.is_file():
        return path
    known = [file.stem for file in corpus_files()]
    hint = f"known here: {', '.join(known)}" if known else "make one with: inset init"
    raise UserError(f"there is no corpus file {path}; {hint}")


def load_corpus(name_or_path: str) -> Corpus:
    """Read and validate a corpus file; its relative paths are resolved against its folder.

    Raises:
        UserError: The file is missing or wrong; the message names file, key and remedy, one line a mistake.
    """
    path = find_corpus_file(name_or_path)
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        where = f" line {place.line + 1}" if place else ""
        raise UserError(f"{path}:{where} this is not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(raw, dict):
        raise UserError(
            f"{path}: this is not a corpus file; it needs at least 'name' and 'source'. Make one with: inset init"
        )
    try:
        corpus = Corpus.model_validate(raw)
    except ValidationError as error:
        raise UserError("\n".join(f"{path}: {_explained(mistake)}" for mistake in error.errors())) from error
    return corpus.model_copy(
        update={
            "source": _resolved(corpus.source, path.parent),
            "store": _resolved(corpus.store, path.parent) if corpus.store else str(_default_store(path.parent)),
            "questions": _resolved(corpus.questions, path.parent) if corpus.questions else None,
        }
    )


def _default_store(folder: Path) -> Path:
    return (folder.parent if folder.name == "corpora" else folder) / ".inset" / "store"


def _resolved(address: str, folder: Path) -> str:
    if address.startswith("s3://"):
        return address
    return os.path.normpath(folder / Path(address.removeprefix("file://")).expanduser())


def _explained(mistake: Any) -> str:
    key = ".".join(str(part) for part in mistake["loc"]) or "file"
    match mistake["type"]:
        case "extra_forbidden":
            known = list(_section(mistake["loc"][:-1]).model_fields)
            near = difflib.get_close_matches(str(mistake["loc"][-1]), known, n=1, cutoff=0.5)
            remedy = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
            return f"{key}: unknown key; {remedy}"
        case "missing":
            return f"{key}: this key is required; add '{mistake['loc'][-1]}: …'"
        case _:
            return f"{key}: {mistake['msg'].removeprefix('Value error, ')} (found {mistake['input']!r})"


def _section(location: tuple[int | str, ...]) -> type[Section]:
    section: type[Section] = Corpus
    for part in location:
        annotation = section.model_fields[str(part)].annotation
        if isinstance(annotation, type) and issubclass(annotation, Section):
            section = annotation
    return section


SCHEMA_FILE = "corpus.schema.json"

_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# A corpus: what to index, how, and what a version must hold to be published. Only name and source are required;
# what is commented out shows the default. Relative paths count from this file.

name: {name}
source: {source}          # a folder, a glob such as docs/**/*.pdf, or s3://bucket/prefix

# store: {store}     # where everything is kept: a folder or s3://bucket/prefix
# schedule: "@daily"               # when Airflow refreshes; without it: by hand
# questions: questions.jsonl       # golden questions: {{"id", "question", "doc", "pages", "answerable"}} a line

# parse:
#   passwords_env: PDF_PASSWORDS   # environment variable with passwords for encrypted PDFs, one a line
#   timeout_s: {timeout_s:g}                 # seconds one document may take, timeout_s_per_page added for each page
#   memory_mb: {memory_mb}                # memory one document may take
# tags:
#   template: "{template}"   # or paper, for <image: filename(…)>; or one's own, with fields such as {{page}}
#   pdf: false                     # true: keep a copy of each PDF with every figure's tag written at its place
# captions:
#   ocr: rapidocr                  # what reads words inside figures and on scanned pages; or none
#   layout: rapid-layout           # what finds figures on scanned pages; or none
# embeddings:
#   text: minilm                   # packaged; or a sentence-transformers model with its revision
# index:
#   engine: lancedb                # embedded; or weaviate, a server, with its url: http://localhost:8080
#   weights: {{search_text: 1}}      # what BM25 looks in; or by field, such as {{title: 2, section_path: 1.5, text: 1}}
#   stop_words: []                 # words that BM25 leaves out of a question; or english
#   fusion: rrf                    # how hybrid merges; or weighted, with alpha: the share of dense
# ray:
#   address: ray://host:10001      # a cluster; without it Ray runs here
# answers:
#   passages: {passages}                    # passages an answer shows at most
# gates:
#   max_quarantined: {max_quarantined}           # share of documents that may be unreadable
#   min_recall_at_10: {min_recall}          # share of golden questions that must be found
# budget:
#   ocr_items: 10000               # figures and pages recognised in one refresh at most
# retention:
#   versions: {versions}
"""


def write_corpus_file(name: str, source: str) -> Path:
    """Write a commented corpus file and, beside it, its JSON Schema for editors.

    Args:
        name: The corpus's name.
        source: Where its PDFs are; a relative path counts from the working folder here, from the file in the file.

    Raises:
        UserError: The name can't be one, or the file is there already.
    """
    path = corpora_folder() / f"{name}.yaml"
    local = not source.startswith("s3://")
    try:
        corpus = Corpus(name=name, source=source)
    except ValidationError as error:
        raise UserError("\n".join(_explained(mistake) for mistake in error.errors())) from error
    text = _TEMPLATE.format(
        schema=SCHEMA_FILE,
        name=name,
        source=json.dumps(os.path.relpath(source, path.parent) if local else source),
        store=os.path.relpath(_default_store(path.parent), path.parent),
        timeout_s=corpus.parse.timeout_s,
        memory_mb=corpus.parse.memory_mb,
        template=corpus.tags.template,
        passages=corpus.answers.passages,
        max_quarantined=corpus.gates.max_quarantined,
        min_recall=corpus.gates.min_recall_at_10,
        versions=corpus.retention.versions,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UserError(f"{path} is there already; edit it, or choose another name: inset init NAME") from error
    except OSError as error:
        raise UserError(f"can't write {path}: {error.strerror}") from error
    (path.parent / SCHEMA_FILE).write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    return path
