"""What a scheduler has to know of each corpus. Light to import: a scheduler reads this every few seconds."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.corpus.corpora import corpus_files, load_corpus, read_mapping
from schemas.errors import UserError
from schemas.ids import sha256
from schemas.printing import is_plain, line

_MOST_NAME = 60


@dataclass(frozen=True)
class CorpusSchedule:
    """A corpus file as a scheduler sees it.

    ``name`` is unique among the corpora of a folder; where the file is broken it comes from the file's name. ``problem`` says
    why the corpus can't be refreshed, a line a mistake, and is empty when it can.
    """

    name: str
    file: Path
    schedule: str | None
    source: str = ""
    problem: str = ""


def corpus_schedules() -> list[CorpusSchedule]:
    """Return every corpus of the corpora folder, sorted by name. A broken file never hides the others.

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
            # Of two files with one name, the file of that name is the one that commands mean.
            kept, dropped = (made, other) if made.file.stem == made.name else (other, made)
            found[made.name] = kept
            problem = f"{dropped.file}: name: {made.name!r} is also the name in {kept.file}; choose another"
            broken.append(CorpusSchedule(_name_of(dropped.file), dropped.file, None, problem=line(problem)))
    for schedule in broken:
        name = schedule.name
        while name in found:
            name = f"{name}_broken"
        found[name] = replace(schedule, name=name)
    return [found[name] for name in sorted(found)]


def _schedule(file: Path) -> CorpusSchedule:
    try:
        corpus = load_corpus(str(file))
        # Its tasks are handed the file's name, and schedulers keep that as text.
        os.fsencode(file).decode("utf-8")
    except UserError as error:
        problem = error.message
    except UnicodeDecodeError:
        problem = line(f"{file}: the name of this file is not UTF-8; give it another one")
    except Exception as error:  # noqa: BLE001  nobody foresaw it, and it must not take the other corpora with it
        problem = line(f"{file}: it can't be read: {type(error).__name__}: {error}"[:500])
    else:
        return CorpusSchedule(corpus.name, file, corpus.schedule, source=corpus.source)
    return CorpusSchedule(_name_of(file), file, _schedule_of(file), problem=problem)


def _name_of(file: Path) -> str:
    """Return a name for a broken file's DAG: the file's, as far as a DAG may have it."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", file.stem)
    if len(name) <= _MOST_NAME and name == file.stem:
        return name
    return f"{name[:_MOST_NAME]}_{sha256(os.fsencode(file.stem))[:8]}"


def _schedule_of(file: Path) -> str | None:
    """Return what a broken file says of its schedule, so that its runs go on and fail where somebody looks."""
    try:
        schedule = read_mapping(file).get("schedule")
    except UserError:
        return None
    return schedule if isinstance(schedule, str) and is_plain(schedule) else None
