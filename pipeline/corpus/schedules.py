"""What a scheduler needs of each corpus file. Light to import, since schedulers parse DAG files often."""

import contextlib
import importlib.util
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import ValidationError

from backends.stores.checked_store import join
from pipeline.corpus.corpora import MAX_BYTES, corpus_files, load_corpus, read_mapping, store_address
from schemas.corpus.operations import OperationOptions
from schemas.errors import UserError
from schemas.ids import sha256
from schemas.printing import is_plain, line

_MAX_NAME = 60
_OF_UNREADABLE = "@daily"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_KEY = re.compile(r"^(name|store):[ \t]+([^\s#]+)[ \t]*$", re.MULTILINE)
"""Keys of a file that isn't YAML."""


@dataclass(frozen=True)
class CorpusSchedule:
    """A corpus file as a scheduler sees it.

    Attributes:
        name: Unique in the folder; derived from the file's name if the file is broken.
        file: The corpus file.
        schedule: Cron expression or preset.
        source: The corpus's source.
        store: Address of the corpus's own store; of a broken file as far as it can be read, "" if it can't.
        operations: The section of the corpus file.
        has_access: Whether it says who may read which document.
        problem: Why the corpus can't be refreshed, a line per mistake; "" if it can.
    """

    name: str
    file: Path
    schedule: str | None
    source: str = ""
    store: str = ""
    operations: OperationOptions = field(default_factory=OperationOptions)
    has_access: bool = False
    problem: str = ""


def corpus_schedules(*, notifiers: bool = True) -> list[CorpusSchedule]:
    """Return every corpus of the corpora folder, broken ones included, sorted by name.

    ``notifiers`` makes each notifier once, which imports Airflow; a service that answers questions needs none.

    Raises:
        UserError: The folder can't be read.
    """
    schedules: dict[str, CorpusSchedule] = {}
    broken: list[CorpusSchedule] = []
    corpora = (corpus_schedule(file, notifiers=notifiers) for file in corpus_files())
    # Of two files with one name, commands mean the file of that name.
    for corpus in sorted(corpora, key=lambda corpus: corpus.file.stem != corpus.name):
        if corpus.problem:
            broken.append(corpus)
        elif (chosen := schedules.setdefault(corpus.name, corpus)) is not corpus:
            problem = f"{corpus.file}: name: {corpus.name!r} is also the name in {chosen.file}; choose another"
            broken.append(CorpusSchedule(_name_of(corpus.file), corpus.file, corpus.schedule, problem=line(problem)))
    for schedule in broken:
        name = schedule.name
        while name in schedules:
            name = f"{name}_broken"
        # The store of a name that is taken is another corpus's.
        schedules[name] = schedule if name == schedule.name else replace(schedule, name=name, store="")
    return [schedules[name] for name in sorted(schedules)]


def corpus_schedule(file: Path, *, notifiers: bool = True) -> CorpusSchedule:
    """Return a corpus by its file, broken or not; ``notifiers`` as in ``corpus_schedules``."""
    try:
        corpus = load_corpus(str(file))
        if notifiers:
            check_notifiers(corpus.operations, file)
        # Schedulers store the file's name as text.
        os.fsencode(file).decode("utf-8")
    except UserError as error:
        problem = error.message
    except UnicodeDecodeError:
        problem = line(f"{file}: the name of this file is not UTF-8; give it another one")
    except Exception as error:  # noqa: BLE001  must not affect the other corpora
        problem = line(f"{file}: it can't be read: {type(error).__name__}: {error}"[:500])
    else:
        store = join(corpus.store or "", corpus.name)
        return CorpusSchedule(
            *(corpus.name, file, corpus.schedule, corpus.source_address, store, corpus.operations),
            has_access=corpus.access is not None,
        )
    return _broken_schedule(file, problem)


def check_notifiers(options: OperationOptions, file: Path) -> None:
    """Make the notifiers of a corpus file once, where Airflow is installed; raise ``UserError`` where one can't be made."""
    for key in ("notify", "announce") if importlib.util.find_spec("airflow") else ():
        for name, arguments in getattr(options, key).items():
            try:
                resolve_name(name)(**arguments)
            except Exception as error:
                raise UserError(
                    f"{file}: operations.{key}: {name} can't be made: {type(error).__name__}: {error}; name a notifier that is "
                    "installed, with its own arguments"
                ) from error


def _broken_schedule(file: Path, problem: str) -> CorpusSchedule:
    """Return what can still be read of a broken file, so that its live version stays in reach and people hear of it.

    Its runs fail visibly: if it can't be read, every day.
    """
    mapping = dict[str, Any]()
    schedule: object = _OF_UNREADABLE
    with contextlib.suppress(OSError):
        if file.is_file():
            mapping = dict(_KEY.findall(file.read_text(errors="replace")[:MAX_BYTES]))
    with contextlib.suppress(UserError):
        mapping = read_mapping(file)
        schedule = mapping.get("schedule")
    name, store = mapping.get("name"), mapping.get("store")
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        name = None
    operations = mapping.get("operations")
    notify = operations.get("notify") if isinstance(operations, dict) else None
    broken_schedule = CorpusSchedule(
        name=name or _name_of(file),
        file=file,
        schedule=schedule if schedule is None or (isinstance(schedule, str) and is_plain(schedule)) else _OF_UNREADABLE,
        problem=problem,
    )
    with contextlib.suppress(ValidationError):
        broken_schedule = replace(broken_schedule, operations=OperationOptions(notify=notify or {}))
    with contextlib.suppress(UserError, UnicodeError, ValueError):
        if store is None or isinstance(store, str):
            broken_schedule = replace(broken_schedule, store=join(store_address(file, store), broken_schedule.name))
    return broken_schedule


def _name_of(file: Path) -> str:
    """Return a valid DAG name for a broken file."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", file.stem)
    if len(name) <= _MAX_NAME and name == file.stem:
        return name
    return f"{name[:_MAX_NAME]}_{sha256(os.fsencode(file.stem))[:8]}"
