"""Find and read corpus files."""

import difflib
import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from schemas.corpus import Corpus, Section
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
