"""Tagged figures on one sheet, to be looked at: ``python -m bench.contact_sheet [--out FILE] [--most N] [--json] [PDF ...]``.

No tool can return whether a figure is one to a reader; a person sees on the sheet in a minute which are rules, borders,
backgrounds or logos. At most 3 in 100 may be. Without PDFs it shows the example manuals.
"""

import argparse
import io
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from bench.parse import MANUALS, OPTIONS, look
from bench.table import Row, show
from schemas.documents import Role

SHEET = Path(__file__).parent.parent / "docs" / "images" / "figures.png"
WIDTH, HEIGHT, LABEL, ACROSS = 150, 110, 14, 12


def main() -> None:
    """Draw the sheet and count what is on it."""
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m bench.contact_sheet", description=about, epilog=more)
    parser.add_argument("--out", type=Path, default=SHEET, help="where the sheet goes")
    parser.add_argument("--most", type=int, default=120, help="figures on it, drawn by lot from all; the same each time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("pdfs", nargs="*", type=Path, metavar="PDF", help="default: the example manuals")
    arguments = parser.parse_args()
    found = [figure for path in arguments.pdfs or sorted(MANUALS.glob("*.pdf")) for figure in _figures(path)]
    chosen = sorted(random.Random(0).sample(range(len(found)), min(arguments.most, len(found))))
    _sheet([found[number][:2] for number in chosen]).quantize(128).save(arguments.out, optimize=True)
    kinds = Counter(kind for _, _, kind in found)
    show(
        f"tagged figures, {len(chosen)} of them on {arguments.out.name}",
        [Row(kind, "", kinds[kind]) for kind in sorted(kinds)],
    )


def _figures(path: Path) -> list[tuple[str, bytes, str]]:
    """Return a label, the pixels and the kind of each tagged figure."""
    structured, pictures = look(path, OPTIONS)
    return [
        (f"{path.stem[:14]} {placement.page}", pictures[f"{placement.figure_id}.png"], str(placement.kind))
        for placement in structured.placements
        if placement.role is Role.CONTENT and placement.figure_id is not None
    ]


def _sheet(figures: Sequence[tuple[str, bytes]]) -> Image.Image:
    rows = -(-len(figures) // ACROSS)
    sheet = Image.new("RGB", (ACROSS * WIDTH, rows * (HEIGHT + LABEL)), "#e4e7ec")
    pen = ImageDraw.Draw(sheet)
    for number, (label, data) in enumerate(figures):
        left, top = number % ACROSS * WIDTH, number // ACROSS * (HEIGHT + LABEL)
        figure = Image.open(io.BytesIO(data)).convert("RGB")
        figure.thumbnail((WIDTH - 6, HEIGHT - 6))
        pen.text((left + 3, top + 1), label, fill="#333333")
        sheet.paste(figure, (left + 3, top + LABEL))
    return sheet


if __name__ == "__main__":
    main()
