"""Small manuals made in the test: a heading, running text, a raster figure with its caption, a drawing."""

import random
from collections.abc import Callable
from pathlib import Path

import pymupdf

WORDS = (
    "pump valve motor torque seal bearing housing filter switch cable sensor bracket nozzle gasket lever spindle"
).split()


def sentence(seed: int, count: int = 14) -> str:
    """Return a sentence of technical words; the same for the same seed."""
    pick = random.Random(seed)
    return " ".join(pick.choice(WORDS) for _ in range(count)).capitalize() + "."


def picture(seed: int, width: int = 120, height: int = 80) -> bytes:
    """Return a PNG of coloured squares; the same for the same seed."""
    pick = random.Random(seed)
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, width, height), False)
    pixmap.clear_with(240)
    for _ in range(12):
        x, y = pick.randrange(width - 20), pick.randrange(height - 20)
        pixmap.set_rect(pymupdf.IRect(x, y, x + 20, y + 20), tuple(pick.randrange(256) for _ in range(3)))
    return bytes(pixmap.tobytes("png"))


def write_manual(path: Path, subject: str, *, seed: int = 0, pages: int = 2, changed: str = "") -> Path:
    """Write a manual about ``subject``: a page has a heading, a fact, and a figure with caption ``Figure N``.

    ``changed`` is when its metadata says so, such as 20240301.
    """
    document = pymupdf.open()
    document.set_metadata({"title": f"{subject.title()} manual"} | ({"modDate": f"D:{changed}"} if changed else {}))
    for number in range(1, pages + 1):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 90), f"{number} Service of the {subject}, part {number}", fontsize=18, fontname="hebo")
        text = " ".join(sentence(seed * 100 + number * 10 + line) for line in range(6))
        page.insert_textbox((72, 120, 520, 260), f"The {subject} takes {seed}{number} bar. {text}", fontsize=11)
        page.insert_image((180, 300, 420, 460), stream=picture(seed * 100 + number))
        page.insert_text((200, 478), f"Figure {number}: The {subject} seen from side {number}", fontsize=10)
        page.insert_text((72, 520), f"As Figure {number} shows, the {subject} has {number} screws.", fontsize=11)
    document.set_toc([[1, f"{n} Service of the {subject}, part {n}", n] for n in range(1, pages + 1)])
    path.parent.mkdir(parents=True, exist_ok=True)
    document.save(path, garbage=3, deflate=True, no_new_id=True)
    document.close()
    return path


def write_scan(path: Path, subject: str) -> Path:
    """Write the first page of a manual as a scanner would: one picture, no text."""
    with pymupdf.open(write_manual(path, subject, pages=1)) as document:
        pixels = document[0].get_pixmap(dpi=120)
    scan = pymupdf.open()
    page = scan.new_page(width=595, height=842)
    page.insert_image(page.rect, pixmap=pixels)
    scan.save(path, garbage=3, deflate=True, no_new_id=True)
    scan.close()
    return path


def write_layered_scan(path: Path, subject: str, layer: Callable[[str], str]) -> Path:
    """Write a manual as a scanner with OCR of its own would: two pictures with hidden text, which is ``layer`` of the words."""
    scan = pymupdf.open()
    with pymupdf.open(write_manual(path, subject)) as document:
        for printed in document:
            page = scan.new_page(width=595, height=842)
            page.insert_image(page.rect, pixmap=printed.get_pixmap(dpi=120))
            for block in printed.get_text("dict")["blocks"]:
                for line in block.get("lines", ()):
                    words = "".join(span["text"] for span in line["spans"])
                    page.insert_text(line["spans"][0]["origin"], layer(words), fontsize=10, render_mode=3)
    scan.save(path, garbage=3, deflate=True, no_new_id=True)
    scan.close()
    return path


def write_long_table(path: Path) -> Path:
    """Write two pages with one table: four rows at the foot of the first, the header again and four at the head of the second.

    Its last cell holds a picture.
    """
    document = pymupdf.open()
    for number, top in enumerate((640, 100)):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 80), "Table 1: (continued)" if number else "The screws are tightened crosswise.", fontsize=10)
        if not number:
            page.insert_text((72, top - 8), "Table 1: Torques", fontsize=10)
        screws = [[f"Screw {row}", f"{row} Nm", ""] for row in range(4 * number, 4 * number + 4)]
        for row, cells in enumerate([["Part", "Torque", "Sign"], *screws]):
            for column, text in enumerate(cells):
                box = pymupdf.Rect(72 + 150 * column, top + 24 * row, 222 + 150 * column, top + 24 * row + 24)
                page.draw_rect(box)
                page.insert_text((box.x0 + 6, box.y0 + 16), text, fontsize=10)
    page.insert_image((400, 199, 430, 217), stream=picture(1, 60, 36))
    path.parent.mkdir(parents=True, exist_ok=True)
    document.save(path, garbage=3, deflate=True, no_new_id=True)
    document.close()
    return path


def endless() -> bytes:
    """A page whose forms draw each other ten times, twelve deep: nobody has the time to draw it."""
    document = pymupdf.open()
    page = document.new_page()
    inner = b"0 0 m 9 9 l S"
    name = ""
    for depth in range(12):
        xref = document.get_new_xref()
        used = f"/Resources<</XObject<</{name} {xref - 1} 0 R>>>>" if name else ""
        document.update_object(xref, f"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]{used}>>")
        document.update_stream(xref, inner, new=True)
        name = f"F{depth}"
        inner = f"/{name} Do ".encode() * 10
    document.xref_set_key(page.xref, "Resources", f"<</XObject<</{name} {xref} 0 R>>>>")
    contents = document.get_new_xref()
    document.update_object(contents, "<<>>")
    document.update_stream(contents, inner, new=True)
    page.set_contents(contents)
    return bytes(document.tobytes())
