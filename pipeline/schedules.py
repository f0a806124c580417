"""What a scheduler has to know of each corpus. Light to import: a scheduler reads this every few seconds."""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipeline.corpora import corpus_files, load_corpus
from schemas.errors import UserError


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
    """Return every corpus of the corpora folder, sorted by name. A broken file never hides the others."""
    found: dict[str, CorpusSchedule] = {}
    broken: list[CorpusSchedule] = []
    for file in corpus_files():
        try:
            corpus = load_corpus(str(file))
        except UserError as error:
            broken.append(CorpusSchedule(_name_of(file), file, _schedule_of(file), problem=error.message))
        except OSError as error:
            broken.append(CorpusSchedule(_name_of(file), file, None, problem=f"{file}: can't be read: {error.strerror}"))
        else:
            made = CorpusSchedule(corpus.name, file, corpus.schedule, source=corpus.source)
            other = found.setdefault(corpus.name, made)
            if other is not made:
                # Of two files with one name, the file of that name is the one that commands mean.
                kept, dropped = (made, other) if file.stem == corpus.name else (other, made)
                found[corpus.name] = kept
                problem = f"{dropped.file}: name: {corpus.name!r} is also the name in {kept.file}; choose another"
                broken.append(CorpusSchedule(_name_of(dropped.file), dropped.file, None, problem=problem))
    for schedule in broken:
        name = schedule.name
        while name in found:
            name = f"{name}_broken"
        found[name] = CorpusSchedule(name, schedule.file, schedule.schedule, problem=schedule.problem)
    return [found[name] for name in sorted(found)]


def _name_of(file: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", file.stem)


def _schedule_of(file: Path) -> str | None:
    """Return what a broken file says of its schedule, so that its runs go on and fail where somebody looks."""
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    schedule = raw.get("schedule") if isinstance(raw, dict) else None
    return schedule if isinstance(schedule, str) else None
