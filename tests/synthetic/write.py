"""Write synthetic manuals, their truth and their questions: ``python -m tests.synthetic.write OUT``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.synthetic import PRESETS, synthesize


def write_manuals(out: Path, *, preset: str, seeds: Sequence[int], pages: int) -> None:
    """Write ``<preset>-<seed>.pdf`` and ``.truth.json`` for each seed, and ``questions.jsonl`` for all of them."""
    out.mkdir(parents=True, exist_ok=True)
    questions: list[str] = []
    for seed in seeds:
        name = f"{preset}-{seed}"
        manual = synthesize(name, seed=seed, pages=pages, options=PRESETS[preset])
        (out / f"{name}.pdf").write_bytes(manual.pdf)
        (out / f"{name}.truth.json").write_text(manual.truth.model_dump_json(indent=1) + "\n", encoding="utf-8")
        questions += [question.model_dump_json() + "\n" for question in manual.questions]
    (out / "questions.jsonl").write_text("".join(questions), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="hard")
    parser.add_argument("--seed", type=int, action="append", help="a manual for each; the same seed gives the same bytes")
    parser.add_argument("--pages", type=int, default=40)
    options = parser.parse_args()
    write_manuals(options.out, preset=options.preset, seeds=options.seed or [0], pages=options.pages)
