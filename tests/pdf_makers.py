"""PDFs of many makers: libraries, programs where they are installed, and those of the examples."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pymupdf
from PIL import Image

from tests.manuals import write_layered_scan, write_long_table, write_manual, write_scan

_EXAMPLES = Path(__file__).parent.parent / "examples" / "manuals" / "pdfs"
_SAVED: dict[str, dict[str, Any]] = {
    "plain": {},
    "compressed": {"deflate": True, "garbage": 4},
    "object_streams": {"use_objstms": 1, "deflate": True},
    "ascii": {"ascii": True, "expand": 255},
    "owned": {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "owner_pw": "owner"},
}
_PROGRAMS = (
    ("soffice", "--headless", "--convert-to", "pdf", "--outdir", "{folder}", "{folder}/page.html"),
    ("chromium", "--headless", "--no-sandbox", "--print-to-pdf={folder}/chromium.pdf", "{folder}/page.html"),
    ("pdftocairo", "-pdf", "{folder}/manual_plain.pdf", "{folder}/cairo.pdf"),
    ("pdfunite", "{folder}/manual_plain.pdf", "{folder}/table_plain.pdf", "{folder}/poppler.pdf"),
)


def write_every_kind(folder: Path) -> list[Path]:
    """Write PDFs into a folder, and return the files."""
    write_manual(folder / "manual.pdf", "water pump", pages=3)
    write_scan(folder / "scan.pdf", "steel winch")
    write_layered_scan(folder / "layered.pdf", "belt drive", str.upper)
    write_long_table(folder / "table.pdf")
    for file in sorted(folder.glob("*.pdf")):
        with pymupdf.open(file) as document:
            for name, options in _SAVED.items():
                document.save(folder / f"{file.stem}_{name}.pdf", **options)
            document[0].insert_text((72, 700), "Added later.")
            document.saveIncr()
    Image.effect_noise((200, 300), 50).save(folder / "pillow.pdf")
    (folder / "page.html").write_text("<h1>Pump</h1>" + "<p>The pump has seven valves.</p>" * 200)
    for program, *arguments in _PROGRAMS:
        if shutil.which(program):
            command = [program, *(argument.format(folder=folder) for argument in arguments)]
            subprocess.run(command, capture_output=True, check=False)  # a program without its parts writes none
    for file in _EXAMPLES.glob("*.pdf"):
        shutil.copy(file, folder)
    return sorted(folder.glob("*.pdf"))
