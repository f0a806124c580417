"""Documents in other formats are made into PDFs, and read as such; hostile ones are refused, each with its code."""

import hashlib
import io
import os
import stat
import tempfile
from pathlib import Path

import pymupdf
import pytest
from PIL import Image, ImageDraw

from backends.conversion import office
from backends.stores.document_files import parsed_file, read_parsed
from backends.stores.object_store import open_store
from backends.stores.sources import open_source
from schemas.corpus import ParseOptions
from schemas.documents import ParsedDocument
from schemas.errors import FailureCode
from schemas.ids import original_file
from tests.office_files import HIDDEN, packed, word
from tests.workers.conftest import Web, leftovers
from workers.convert import converter_of, remove_leftovers
from workers.isolation import missing_isolation
from workers.parse_shard import ParseJob, parse_documents, parse_key

OPTIONS = ParseOptions(workers=1, layout="never")

needs_libreoffice = pytest.mark.skipif(office.program() is None, reason="LibreOffice isn't installed")


def _picture(kind: str = "PNG") -> bytes:
    picture, data = Image.new("RGB", (300, 200), "white"), io.BytesIO()
    ImageDraw.Draw(picture).rectangle((50, 50, 200, 150), fill="red")
    picture.save(data, kind)
    return data.getvalue()


def _read(
    folder: Path, name: str, data: bytes, options: ParseOptions = OPTIONS, passwords: tuple[str, ...] = ()
) -> ParsedDocument | tuple[FailureCode, str]:
    """Return a parsed document, or its failure."""
    source = folder / "source"
    (source / name).parent.mkdir(parents=True, exist_ok=True)
    (source / name).write_bytes(data)
    store, doc_id = open_store(str(folder / "store")), hashlib.sha256(data).hexdigest()
    (outcome,) = parse_documents(
        [ParseJob(doc_id, name)],
        source=open_source(str(source)),
        store_address=store.root,
        options=options,
        passwords=passwords,
        run_id=None,
    )
    if outcome.failures:
        return outcome.failures[0].code, outcome.failures[0].message
    parsed = read_parsed(store, parsed_file(doc_id, parse_key(options)))
    assert parsed.doc_id == doc_id, "the document is known by the digest of its own bytes"
    if parsed.pdf is not None:
        assert store.get(original_file(doc_id)) == data
        assert store.get(parsed.pdf).startswith(b"%PDF-")
    return parsed


def _parsed(folder: Path, name: str, data: bytes) -> ParsedDocument:
    parsed = _read(folder, name, data)
    assert isinstance(parsed, ParsedDocument), parsed
    return parsed


def _text(parsed: ParsedDocument) -> str:
    return " ".join(line.text.strip() for line in parsed.lines)


def test_a_markdown_file_is_read_with_the_pictures_beside_it(tmp_path: Path) -> None:
    (tmp_path / "source/manuals/img").mkdir(parents=True)
    (tmp_path / "source/manuals/img/pump one.png").write_bytes(_picture())
    text = b"---\ntitle: The pump\ndate: 2024-03-31\n---\n# Pump\n\nGrease it.\n\n![A pump](img/pump%20one.png)\n"
    parsed = _parsed(tmp_path, "manuals/pump.md", text)
    assert (parsed.title, parsed.date) == ("The pump", "2024-03-31")
    assert [figure.ext for figure in parsed.figures] == ["png"]
    assert "Grease it." in _text(parsed)
    assert [entry.title for entry in parsed.outline] == ["Pump"]


@pytest.mark.parametrize(
    "address", ["../../secret.png", "/secret.png", "file:///{outside}", "http://127.0.0.1:{port}/a.png"]
)
def test_a_page_takes_nothing_from_outside_the_source(tmp_path: Path, address: str, web: Web) -> None:
    outside = tmp_path / "secret.png"
    outside.write_bytes(_picture())
    address = address.replace("{outside}", str(outside)).replace("{port}", str(web.port))
    page = f"<h1>Pump</h1><script>document.write('run')</script><img src='{address}'><link rel=stylesheet href='{address}'>"
    parsed = _parsed(tmp_path, "manuals/pump.html", page.encode())
    assert (parsed.figures, web.asked, "run" in _text(parsed)) == ((), [], False)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_plain_text_keeps_its_letters_and_paragraphs(tmp_path: Path, encoding: str) -> None:
    text = "Öl für die Wärmepumpe wird über die Düse nachgefüllt.\n\nZweiter Absatz: größer, schöner, übler."
    parsed = _parsed(tmp_path, "note.txt", text.encode(encoding))
    assert _text(parsed) == " ".join(text.split())


def test_each_picture_of_a_file_is_a_page(tmp_path: Path) -> None:
    pages = pymupdf.open()
    for _ in range(2):
        pages.new_page(width=300, height=200).insert_image((0, 0, 300, 200), stream=_picture())
    tiff = io.BytesIO()
    first, second = (
        Image.frombytes("RGB", (pixels.width, pixels.height), pixels.samples)
        for pixels in (page.get_pixmap() for page in pages)
    )
    first.save(tiff, "TIFF", save_all=True, append_images=[second], compression="tiff_lzw")
    assert len(_parsed(tmp_path, "scan.tiff", tiff.getvalue()).pages) == 2
    large = io.BytesIO()
    Image.new("RGB", (4000, 3000), "gray").save(large, "JPEG")
    (page,) = _parsed(tmp_path, "photo.JPG", large.getvalue()).pages
    assert (round(page.width_pt), round(page.height_pt)) == (842, 632)


@needs_libreoffice
def test_a_word_file_is_read_with_its_title_and_day(tmp_path: Path) -> None:
    parsed = _parsed(tmp_path, "pump.docx", word("Grease the bearing.", title="The pump"))
    assert (parsed.title, parsed.date, _text(parsed)) == ("The pump", "2024-03-31", "Grease the bearing.")
    assert parsed.pdf is not None
    assert f"{converter_of('pump.docx')}.pdf" == parsed.pdf.rpartition("/")[2]
    assert str(office.release()) in parsed.pdf, "the converter's release is part of the name"


@needs_libreoffice
def test_links_to_outside_are_not_followed(tmp_path: Path, web: Web) -> None:
    if missing := missing_isolation():
        pytest.skip("; ".join(missing))
    outside = tmp_path / "secret.png"
    outside.write_bytes(_picture())
    data = word("Look.", links=(f"http://127.0.0.1:{web.port}/a.png", outside.as_uri()))
    parsed = _parsed(tmp_path, "pump.docx", data)
    assert web.asked == []
    colours = {figure.sha1 for figure in parsed.figures}
    assert len(colours) <= 1, "no picture, or the sign for a missing one twice"


MACRO = {"word/vbaProject.bin": b"\xd0\xcf\x11\xe0"}
ENCRYPTED_ODT = {
    "mimetype": "application/vnd.oasis.opendocument.text",
    "META-INF/manifest.xml": "<manifest:encryption-data/>",
    "content.xml": "x",
}
REFUSED = {
    "empty.docx": (b"", FailureCode.EMPTY_FILE),
    "is-a-pdf.docx": (b"%PDF-1.7 ...", FailureCode.WRONG_FORMAT),
    "is-html.doc": (b"<html><body>Pump</body></html>", FailureCode.WRONG_FORMAT),
    "is-a-sheet.docx": (
        packed({"[Content_Types].xml": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"}),
        FailureCode.WRONG_FORMAT,
    ),
    "is-a-program.txt": (b"MZ\x90\x00", FailureCode.WRONG_FORMAT),
    "is-binary.md": (b"# Pump\0\0\0", FailureCode.WRONG_FORMAT),
    "is-a-jpeg.png": (_picture("JPEG"), FailureCode.WRONG_FORMAT),
    "macro.docx": (word("Run me.", more=dict(MACRO)), FailureCode.HAS_MACROS),
    "bomb.docx": (word("Boom.", more={"word/media/a.xml": b"\0" * (200 << 20)}), FailureCode.ZIP_BOMB),
    "encrypted.odt": (packed(dict(ENCRYPTED_ODT)), FailureCode.NEEDS_PASSWORD),
    "cut.docx": (word("Cut.")[:-40], FailureCode.UNREADABLE),
    "cut.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, FailureCode.UNREADABLE),
    "cut.png": (_picture()[:60], FailureCode.UNREADABLE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_what_it_says_is_refused_with_a_code(tmp_path: Path, name: str) -> None:
    data, code = REFUSED[name]
    failure = _read(tmp_path, name, data)
    assert isinstance(failure, tuple), "it was read"
    assert failure[0] is code, failure


def test_without_libreoffice_office_files_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    failure = _read(tmp_path, "pump.docx", word("Grease it."))
    assert failure == (
        FailureCode.NEEDS_LIBREOFFICE,
        "LibreOffice isn't installed, which converts .docx files; install it on this machine",
    )


PROGRAMS = {
    "kill -SEGV $$": FailureCode.NOT_CONVERTED,
    "exit 1": FailureCode.NOT_CONVERTED,
    "sleep 600": FailureCode.TIME_LIMIT,
    "while :; do :; done": FailureCode.TIME_LIMIT,
}


@pytest.mark.parametrize("does", PROGRAMS)
def test_a_crash_or_hang_of_libreoffice_fails_its_document_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    program = tmp_path / "bin/program/soffice"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    failure = _read(tmp_path, "pump.docx", word("Grease it."), OPTIONS.model_copy(update={"timeout_s": 1.0}))
    assert isinstance(failure, tuple), "it was read"
    assert failure[0] is PROGRAMS[does], failure
    assert leftovers(tmp_path) == []
    assert [*(tmp_path / "temporary").iterdir()] == []


BY = 'w:author="A" w:date="2024-01-01T00:00:00Z"'
CHANGED = (
    '<w:p><w:r><w:t xml:space="preserve">Open the valve </w:t></w:r>'
    f'<w:del\nw:id="1" {BY}><w:r><w:delText>never</w:delText></w:r></w:del>'
    f'<w:moveFrom w:id="2" {BY}><w:r><w:t>never</w:t></w:r></w:moveFrom>'
    "<w:r><w:rPr><w:vanish/></w:rPr><w:t>never</w:t></w:r>"
    f'<w:ins w:id="3" {BY}><w:r><w:t>always</w:t></w:r></w:ins><w:r><w:t> slowly.</w:t></w:r></w:p>'
)


@pytest.mark.slow
@needs_libreoffice
@pytest.mark.parametrize("part", ["body", "header"])
def test_deleted_moved_and_hidden_text_is_left_out_and_inserted_text_is_read(tmp_path: Path, part: str) -> None:
    data = word(body=CHANGED) if part == "body" else word("Pump", header=CHANGED)
    text = _text(_parsed(tmp_path, "valve.docx", data))
    assert "never" not in text
    assert "always" in text


@pytest.mark.slow
@needs_libreoffice
@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_sheets_and_slides_are_left_out(tmp_path: Path, name: str) -> None:
    data, lines = HIDDEN[name]
    assert [line.text.strip() for line in _parsed(tmp_path, name, data).lines] == lines


def test_only_the_socket_of_its_own_profile_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "SOCKETS", tmp_path)
    converted, unrelated = (office.socket(tmp_path / name) for name in ("converted", "other"))
    for socket in (converted, unrelated):
        socket.touch()
    remove_leftovers(tmp_path / "converted")
    assert [*tmp_path.glob("OSL_PIPE_*")] == [unrelated]


@pytest.mark.parametrize("columns", [3, 20])
def test_a_table_keeps_its_words_whole_where_the_page_has_room_and_is_never_cut(tmp_path: Path, columns: int) -> None:
    remark = "The operator reaches the valve at the inlet from the platform without a ladder. " * 3
    cells = "".join(f"<td>{text}</td>" for text in (*(f"Quantity{number}" for number in range(columns)), remark))
    parsed = _parsed(tmp_path, "valves.html", f"<table><tr>{cells}</tr></table>".encode())
    assert sum(line.text.count("Q") for line in parsed.lines) == columns
    assert ("Quantity2" in [line.text.strip() for line in parsed.lines]) == (columns == 3)
