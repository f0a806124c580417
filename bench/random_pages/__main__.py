"""Draw random pages, and score the reading of them: ``python -m bench.random_pages [--seed N] [--count M] [--kinds a,b]``.

Each document has two or three kinds of content, a running head and at most one quirk. A line is printed for each kind, quirk and
running head: answers that are right, and those asked for. The seed is today's date unless it is given; the same seed gives the
same pages. ``--out`` keeps the PDFs.
"""

import argparse
import datetime
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.random_pages.drawing import Drawing, Question
from bench.random_pages.layouts import HEADS, KINDS, QUIRKS, SHORT_HEADS
from bench.random_pages.reading import Reading
from pipeline.inspection.inspect import inspect


def draw(seed: int, number: int, kinds: Sequence[str] = (), quirk: str | None = None) -> Drawing:
    """Return a document of a seed: the same for the same arguments."""
    pick = random.Random(f"{seed}/{number}")
    drawing = Drawing(pick)
    drawing.kind = "title"
    drawing.heading(drawing.title, size=1.8)
    drawing.paragraph()
    for kind in kinds or pick.sample(sorted(KINDS), pick.randint(2, 3)):
        drawing.kind = "sections"
        drawing.heading()
        drawing.paragraph()
        drawing.kind = kind
        KINDS[kind](drawing)
    head = pick.choice(sorted(HEADS) if len(drawing.pages) > 2 else SHORT_HEADS)
    drawing.kind = head
    HEADS[head](drawing)
    drawn_quirk = pick.choice(("", *sorted(QUIRKS))) if quirk is None else quirk
    if drawn_quirk:
        drawing.kind = drawn_quirk
        QUIRKS[drawn_quirk](drawing)
    drawing.quirk = drawn_quirk
    return drawing


def score(drawing: Drawing, path: Path) -> list[tuple[Question, bool]]:
    """Return the questions of a document and whether its reading answers them."""
    path.write_bytes(drawing.write())
    reading = Reading(inspect(path))
    return [(question, reading.answers(question)) for question in drawing.questions]


def main() -> None:
    """Draw, read and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(datetime.datetime.now(tz=datetime.UTC).strftime("%Y%m%d")))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--kinds", default="", help="draw these alone, separated by commas")
    parser.add_argument("--quirk", default=None, help='"" for none')
    parser.add_argument("--faults", type=int, default=0, help="print so many wrong answers of each kind")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    wrong: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        for number in range(given.count):
            drawing = draw(given.seed, number, [kind for kind in given.kinds.split(",") if kind], given.quirk)
            for question, is_right in score(drawing, out / f"{given.seed}-{number:03}.pdf"):
                for name in {question.kind, drawing.quirk or "no quirk", "ALL"}:
                    asked[name] += 1
                    right[name] += is_right
                if not is_right:
                    quirk = drawing.quirk or "no quirk"
                    fault = f"    {number:03} p. {question.page} {question.ask} ({quirk}): {question.text[:90]}"
                    wrong.setdefault(question.kind, []).append(fault)
    print(f"seed {given.seed}, {given.count} documents")
    for name in sorted(asked, key=lambda name: right[name] / asked[name]):
        print(f"{name:24} {right[name]:5} of {asked[name]:5}  {right[name] / asked[name]:.0%}")
        print(*wrong.get(name, [])[: given.faults], sep="\n", end="\n" * bool(wrong.get(name) and given.faults))


if __name__ == "__main__":
    main()
