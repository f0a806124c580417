"""What a small change costs in a large corpus: ``python -m bench.incremental [--manuals N] [--changed N] [--json]``.

Synthetic manuals are refreshed, one in a hundred changes, and the corpus is refreshed again: documents parsed, texts embedded
and CPU-seconds of the second refresh over those of the first. Half of those that change get a new paragraph, the others are
replaced by another manual altogether. OCR is off. CPU-seconds are those of all
processes, Ray's included, without the build of the collection, which is made anew for each version, and without start-up:
what the same two refreshes take on a corpus of one manual. That one starts no Ray, so what Ray takes to start counts as work.
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.table import Row, show
from schemas.stages import Stage, Step
from tests.synthetic import PRESETS, synthesize

PAGES = 3
_LOOK_EVERY_S = 0.5
_CORPUS = "name: manuals\nsource: pdfs\nstore: store\ncaptions: {ocr: none, layout: none}\n"


@dataclass(frozen=True)
class _Cost:
    """What a refresh took; ``cpu_s`` goes by stage."""

    parsed: int
    embedded: int
    cpu_s: dict[str, float]
    whole_cpu_s: float

    @property
    def beyond_build(self) -> float:
        return self.whole_cpu_s - self.cpu_s[Stage.BUILD]


def main() -> None:
    """Refresh a corpus before and after a change, and print the ratios."""
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m bench.incremental", description=about, epilog=more)
    parser.add_argument("--manuals", type=int, default=1_000, help="manuals of the corpus")
    parser.add_argument("--changed", type=int, help="how many of them change; one in a hundred by default")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--refresh", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.refresh:
        print(json.dumps(_refresh(arguments.refresh)))
        return
    changed = arguments.changed or max(1, arguments.manuals // 100)
    show(f"{changed} of {arguments.manuals} manuals changed", list(_rows(arguments.manuals, changed)))


def _rows(manuals: int, changed: int) -> Iterator[Row]:
    start, restart = _refreshes(1, 1)
    full, again = _refreshes(manuals, changed)
    yield Row("documents parsed", "", again.parsed, full.parsed, "the first refresh", "ratio at most 0.01")
    yield Row("texts embedded", "", again.embedded, full.embedded, "the first refresh", "ratio at most 0.01")
    ours, theirs = again.beyond_build - restart.beyond_build, full.beyond_build - start.beyond_build
    yield Row("beyond start-up and build", "CPU-s", ours, theirs, "the first refresh", "ratio at most 0.03")
    yield Row("start-up", "CPU-s", restart.beyond_build, start.beyond_build, "the first refresh")
    for stage, seconds in again.cpu_s.items():
        yield Row(f"  {stage}, start-up included", "CPU-s", seconds, full.cpu_s[stage], "the first refresh")


def _refreshes(manuals: int, changed: int) -> tuple[_Cost, _Cost]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "pdfs").mkdir()
        (root / "manuals.yaml").write_text(_CORPUS)
        for number in range(manuals):
            _write(root, number, seed=number)
        first = _alone(root)
        for turn in range(changed):
            number = turn * (manuals // changed)
            if turn % 2:
                _revise(root, number)
            else:
                _write(root, number, seed=manuals + turn)
        return first, _alone(root)


def _write(root: Path, number: int, *, seed: int) -> None:
    manual = synthesize(f"manual-{number}", seed=seed, pages=PAGES, options=PRESETS["easy"])
    _file(root, number).write_bytes(manual.pdf)


def _revise(root: Path, number: int) -> None:
    import pymupdf

    with pymupdf.open(_file(root, number)) as document:
        page = document.new_page()
        page.insert_text((72, 100), "Since this revision the bearing is greased before it is fitted.", fontsize=11)
        revised = document.tobytes()
    _file(root, number).write_bytes(revised)


def _file(root: Path, number: int) -> Path:
    return root / "pdfs" / f"manual-{number:05}.pdf"


def _alone(root: Path) -> _Cost:
    """Refresh in a process of its own; count what it, its children and Ray's workers took."""
    before = _cpu_seconds(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "bench.incremental", "--refresh", str(root / "manuals.yaml")]
    # Nobody waits for Ray's workers, so their time is in nobody's account: it is sampled while they live.
    workers: dict[tuple[int, float], float] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            workers |= _ray_workers(process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_S)
        assert process.stdout is not None
        counts = json.loads(process.stdout.read().splitlines()[-1])
    whole = _cpu_seconds(resource.RUSAGE_CHILDREN) - before + sum(workers.values())
    return _Cost(**counts, whole_cpu_s=whole)


def _ray_workers(pid: int) -> dict[tuple[int, float], float]:
    """Return the CPU-seconds of the processes that a Ray below a process has started so far."""
    found: dict[tuple[int, float], float] = {}
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                parent = process.parent()
                if parent is not None and parent.name() == "raylet":
                    used = process.cpu_times()
                    found[process.pid, process.create_time()] = used.user + used.system
    return found


def _refresh(file: str) -> dict[str, object]:
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.notes import read_notes
    from pipeline.refresh import refresh

    spent: dict[str, float] = {}
    current, since = str(Stage.PLAN), 0.0

    def report(step: str, _done: int, _total: int, _spent: str = "") -> None:
        nonlocal current, since
        stage = _STAGES.get(step, step)
        if stage != current:
            now = _cpu_seconds(resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
            spent[current] = now - since
            current, since = stage, now
            sys.stderr.write(f"{stage}\n")

    workspace = open_workspace(file)
    result = refresh(workspace, report=report)
    report("end", 1, 1)
    assert result.published, [gate.message for gate in result.gates if not gate.passed]
    notes = read_notes(workspace.store, result.version or "")
    return {
        "parsed": notes[Stage.PARSE].counts["parsed"],
        "embedded": notes[Stage.ENRICH].counts["embedded"],
        "cpu_s": spent,
    }


_STAGES: dict[str, Stage] = dict.fromkeys((Step.RECOGNISE, Step.SEGMENT, Step.STRUCTURE, Step.EMBED), Stage.ENRICH)


def _cpu_seconds(*whose: int) -> float:
    used = [resource.getrusage(who) for who in whose]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
