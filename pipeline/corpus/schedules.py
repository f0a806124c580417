"""What a scheduler needs of each corpus file. Light to import, since schedulers parse DAG files often."""

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from backends.stores.object_store import join
from pipeline.corpus.corpora import corpus_files, load_corpus, read_mapping
from schemas.corpus.operations import OperationOptions
from schemas.errors import UserError
from schemas.ids import sha256
from schemas.printing import is_plain, line

_MAX_NAME = 60
_OF_UNREADABLE = "@daily"


@dataclass(frozen=True)
class CorpusSchedule:
    """A corpus file as a scheduler sees it.

    Attributes:
        name: Unique in the folder; derived from the file's name where the file is broken.
        file: The corpus file.
        schedule: Cron expression or preset.
        source: The corpus's source.
        store: Address of the corpus's own store; "" where the file is broken.
        operations: The section of the corpus file.
        tagged: Whether each version has tagged copies of its PDFs.
        problem: Why the corpus can't be refreshed, a line per mistake; "" where it can.
    """

    name: str
    file: Path
    schedule: str | None
    source: str = ""
    store: str = ""
    operations: OperationOptions = field(default_factory=OperationOptions)
    tagged: bool = False
    problem: str = ""


def corpus_schedules() -> list[CorpusSchedule]:
    """Return every corpus of the corpora folder, broken ones included, sorted by name.

    Raises:
        UserError: The folder can't be read.
    """
    found: dict[str, CorpusSchedule] = {}
    broken: list[CorpusSchedule] = []
    for made in map(_schedule, corpus_files()):
        if made.problem:
            broken.append(made)
            continue
        other = found.setdefault(made.name, made)
        if other is not made:
            # Of two files with one name, commands mean the file of that name.
            kept, dropped = (made, other) if made.file.stem == made.name else (other, made)
            found[made.name] = kept
            problem = f"{dropped.file}: name: {made.name!r} is also the name in {kept.file}; choose another"
            broken.append(CorpusSchedule(_name_of(dropped.file), dropped.file, dropped.schedule, problem=line(problem)))
    for schedule in broken:
        name = schedule.name
        while name in found:
            name = f"{name}_broken"
        found[name] = replace(schedule, name=name)
    return [found[name] for name in sorted(found)]


def _schedule(file: Path) -> CorpusSchedule:
    try:
        corpus = load_corpus(str(file))
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
        return CorpusSchedule(corpus.name, file, corpus.schedule, corpus.source, store, corpus.operations, corpus.tags.pdf)
    return CorpusSchedule(_name_of(file), file, _schedule_of(file), problem=problem)


def _name_of(file: Path) -> str:
    """Return a valid DAG name for a broken file."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", file.stem)
    if len(name) <= _MAX_NAME and name == file.stem:
        return name
    return f"{name[:_MAX_NAME]}_{sha256(os.fsencode(file.stem))[:8]}"


def _schedule_of(file: Path) -> str | None:
    """Return the schedule of a broken file, or a daily one where it can't be read: its runs fail visibly."""
    try:
        found = read_mapping(file)
    except UserError:
        return _OF_UNREADABLE
    schedule = found.get("schedule")
    if schedule is None and "schedule" not in found:
        return None
    return schedule if isinstance(schedule, str) and is_plain(schedule) else _OF_UNREADABLE
