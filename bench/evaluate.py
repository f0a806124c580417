"""Every packaged experiment over the example corpus with a scripted model: ``python -m bench.evaluate``.

A model at an endpoint of this process writes one cited sentence to every question, and models of pictures have random weights:
what counts here is the harness. Each experiment is a process of ``inset evaluate``, twice. Memory is compared between
experiments with few outcomes and with many. Processes keep their bytecode, as an installation does.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.table import Row, show
from lab.experiment import packaged_experiments
from tests import endpoint_server
from tests.tiny_models import write_clip

INSET = [sys.executable, "-m", "cli.main"]
EXAMPLES = Path(__file__).parent.parent / "examples" / "manuals"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.parse_args()
    with TemporaryDirectory() as made, endpoint_server.running() as server:
        server.replies = lambda _call: "It is described there [P1]."
        folder = Path(made)
        corpus = _corpus(folder, server.url)
        first = {name: _evaluate(folder, name, corpus) for name in packaged_experiments()}
        calls = len(server.calls)
        second = {name: _evaluate(folder, name, corpus) for name in packaged_experiments()}
        repeated = len(server.calls) - calls
        rows = [
            Row("first run, all experiments", "s", sum(one[0] for one in first.values()), goal="at most 600"),
            Row("first run, CPU", "s", sum(one[2] for one in first.values())),
            Row("second run, nothing changed", "s", sum(one[0] for one in second.values()), goal="at most 20"),
            Row("second run, CPU", "s", sum(one[2] for one in second.values())),
            Row("calls of the second run", "calls", repeated, goal="0"),
        ]
        for name in first:
            systems, outcomes, lacking = _counts(folder, name)
            rows += [
                Row(f"{name}: systems that ran", "systems", systems, systems + lacking, "all systems"),
                Row(f"{name}: memory of {outcomes} outcomes", "MiB", first[name][1], first["article"][1], "article"),
            ]
        show("Experiments, 68 questions over the example corpus, scripted model", rows)


def _corpus(folder: Path, url: str) -> Path:
    """Refresh the example corpus with everything that experiments need but a judge."""
    options = {"kind": "llm", "model": "scripted", "revision": "1", "endpoint": {"url": url}}
    sees = {**options, "kind": "vlm", "prompt": "figure-summary-paper"}
    with multiprocessing.get_context("spawn").Pool(1) as other:  # a child counts the memory of its parent as its own
        clip = str(other.apply(write_clip, (folder / "clip",)))
    holds = {
        "name": "manuals",
        "source": str(EXAMPLES / "pdfs"),
        "store": str(folder / "store"),
        "questions": str(EXAMPLES / "questions.jsonl"),
        "captions": {"ocr": "none", "captioner": "vlm", "pages": "context", "summaries": "vlm"},
        "embeddings": {
            "image": "clip",
            "unified": "mean",
            "tables": "minilm",
            "parts": ["descriptions", "descriptions_and_texts", "tagged_texts", "joint"],
        },
        "models": {"llm": options, "vlm": sees, "clip": {"kind": "image_embedder", "model": clip, "revision": "1"}},
    }
    file = folder / "manuals.yaml"
    file.write_text(json.dumps(holds))
    subprocess.run([*INSET, "refresh", str(file)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return file


def _evaluate(folder: Path, name: str, corpus: Path) -> tuple[float, float, float]:
    """Run an experiment; return its seconds, its memory in MiB, and its CPU seconds."""
    started = time.monotonic()
    command = [*INSET, "evaluate", name, "--corpus", str(corpus), "--out", str(folder / name)]
    # Where Python writes no bytecode, each process compiles a thousand modules again, which takes half of its time.
    kept = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=kept)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{name} failed: {said}")
    return time.monotonic() - started, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime


def _counts(folder: Path, name: str) -> tuple[int, int, int]:
    """Return the systems that ran, their outcomes, and the systems that lack something."""
    results = json.loads((folder / name / "results.json").read_text())
    ran = [one for one in results["systems"] if not one["note"]]
    for one in results["systems"]:
        if one["note"] or one["failed"]:
            print(f"{name}: {one['system']['id']}: {one['note'] or one['failed']}", file=sys.stderr)
    return len(ran), len(ran) * results["questions"], len(results["systems"]) - len(ran)


if __name__ == "__main__":
    main()
