"""Sixty hostile documents in other formats: each is read or refused with a code, nothing is fetched, nothing stays behind."""

import base64
import io
import random
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.conversion import office
from backends.stores.document_files import parsed_file, read_parsed
from backends.stores.object_store import open_store
from backends.stores.sources import open_source
from schemas.corpus import ParseOptions
from schemas.errors import FailureCode
from schemas.ids import sha256
from tests.office_files import packed, paragraph, word
from tests.workers.conftest import Web, leftovers
from workers.isolation import missing_isolation
from workers.parse_shard import ParseJob, parse_documents, parse_key

OPTIONS = ParseOptions(workers=2, layout="never", timeout_s=20.0)
SECRET = "the-secret-of-this-machine"
ODT = "application/vnd.oasis.opendocument.text"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "draw", "style")
)
NAMES += ' xmlns:xlink="http://www.w3.org/1999/xlink"'


def _open_document(media_type: str, body: str, head: str = "", styles: str = "") -> bytes:
    kind = "text" if media_type == ODT else "spreadsheet"
    content = (
        f'<?xml version="1.0"?>{head}<office:document-content {NAMES} office:version="1.3"><office:automatic-styles>{styles}'
        f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    entries = "".join(
        f'<m:file-entry m:full-path="{at}" m:media-type="{of}"/>'
        for at, of in (("/", media_type), ("content.xml", "text/xml"))
    )
    manifest = (
        f'<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" m:version="1.3">{entries}</m:manifest>'
    )
    return packed({"mimetype": media_type, "META-INF/manifest.xml": manifest, "content.xml": content})


def _entities(system: str = "") -> str:
    """Return a document type whose entity grows to a billion letters, or is read from an address."""
    if system:
        return f'<!DOCTYPE x [<!ENTITY e SYSTEM "{system}">]>'
    grown = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    return f'<!DOCTYPE x [<!ENTITY e0 "boom">{grown}<!ENTITY e "&e9;">]>'


def _with_head(data: bytes, part: str, head: str, before: str, text: str) -> bytes:
    """Put a document type before the root of a part, and a text into it."""
    package = zipfile.ZipFile(io.BytesIO(data))
    parts: dict[str, str | bytes] = {name: package.read(name) for name in package.namelist()}
    xml = package.read(part).decode()
    parts[part] = xml.replace('<?xml version="1.0"?>', f'<?xml version="1.0"?>{head}', 1).replace(before, text + before, 1)
    return packed(parts)


def _field(code: str) -> str:
    return f'<w:p><w:fldSimple w:instr="{code}"><w:r><w:t>Look</w:t></w:r></w:fldSimple></w:p>'


def _png(width: int, height: int, rows: bytes = b"") -> bytes:
    """Return a PNG that says to be so large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _tiff(pages: int) -> bytes:
    """Return a TIFF whose directories point at each other in a loop."""
    directory = struct.pack("<H", 0) + struct.pack("<I", 8)
    return b"II*\0" + struct.pack("<I", 8) + directory * pages


def _word_files(outside: str, address: str) -> Iterator[tuple[str, bytes]]:
    good = word("Grease the pump.")
    nested = "<w:tbl><w:tr><w:tc>" * 60 + paragraph("deep") + "<w:p/></w:tc></w:tr></w:tbl>" * 60
    yield "entities.docx", _with_head(good, "word/document.xml", _entities(), "<w:body>", "") + b""
    for name, system in (("file", outside), ("web", address)):
        yield f"entity-{name}.docx", _with_head(good, "word/document.xml", _entities(system), "Grease", "&e;")
        yield f"picture-{name}.docx", word("Look.", links=(system,))
        yield (
            f"include-{name}.docx",
            word("Look.", body=_field(f"INCLUDEPICTURE {system}") + _field(f"INCLUDETEXT {system}")),
        )
    yield "dde.docx", word("Look.", body=_field("DDEAUTO c:\\\\windows\\\\system32\\\\cmd.exe calc"))
    yield "nested.docx", word("Look.", body=nested)
    yield "deep.docx", word("Look.", body="<w:sdt><w:sdtContent>" * 20_000 + "</w:sdtContent></w:sdt>" * 20_000)
    yield "styles-loop.docx", word("Look.", more={"word/styles.xml": _style_loop()})
    yield "chunk-of-itself.docx", word("Look.", body='<w:altChunk r:id="main"/>')
    yield "macro.docx", word("Look.", more={"word/vbaProject.bin": b"\xd0\xcf\x11\xe0"})
    yield "names-outside.docx", word("Look.", more={"../../../../tmp/inset-hostile": "x", "/etc/inset-hostile": "x"})
    yield "large-picture.docx", word("Look.", more={"word/media/image1.png": _png(60_000, 60_000)})
    yield "bomb.docx", word("Look.", more={"word/media/a.xml": b"\0" * (120 << 20)})
    yield "many-parts.docx", word("Look.", more={f"word/media/{number}.xml": "x" for number in range(20_000)})
    for share in (1, 2, 3, 5, 8):
        yield f"cut-{share}.docx", good[: len(good) * share // 9]
    noise = random.Random(7)
    for number in range(8):
        damaged = bytearray(good)
        for position in noise.sample(range(len(damaged)), 12):
            damaged[position] = noise.randrange(256)
        yield f"damaged-{number}.docx", bytes(damaged)


def _style_loop() -> str:
    of = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/><w:basedOn w:val="{base}"/></w:style>'
        for name, base in (("A", "B"), ("B", "A"))
    )
    return f'<w:styles xmlns:w="{of}">{styles}</w:styles>'


def _open_documents(outside: str, address: str) -> Iterator[tuple[str, bytes]]:
    cell = "<table:table-cell office:value-type='string'><text:p>Pump</text:p></table:table-cell>"
    for name, system in (("file", outside), ("web", address)):
        frame = f'<text:p><draw:frame><draw:image xlink:href="{system}"/></draw:frame></text:p>'
        section = f'<text:section text:name="s"><text:section-source xlink:href="{system}"/></text:section>'
        yield f"picture-{name}.odt", _open_document(ODT, frame)
        yield f"section-{name}.odt", _open_document(ODT, section)
        yield f"entity-{name}.odt", _open_document(ODT, "<text:p>&e;</text:p>", _entities(system))
        formula = f"of:=WEBSERVICE(&quot;{system}&quot;)"
        called = f'<table:table-cell table:formula="{formula}" office:value-type="string"><text:p>Pump</text:p>'
        called += "</table:table-cell>"
        yield f"formula-{name}.ods", _sheet(f"<table:table-row>{called}</table:table-row>")
    yield "entities.odt", _open_document(ODT, "<text:p>&e;</text:p>", _entities())
    yield "entities.ods", _open_document(ODS, "&e;", _entities())
    yield "wide.ods", _sheet(f"<table:table-row>{cell * 3_000}</table:table-row>")
    yield "long.ods", _sheet(f'<table:table-row table:number-rows-repeated="1048576">{cell * 16}</table:table-row>')
    yield "large.ods", _sheet("".join(f"<table:table-row>{cell * 20}</table:table-row>" for _ in range(25_000)))
    loop = "".join(
        f'<style:style style:name="{a}" style:family="paragraph" style:parent-style-name="{b}"/>' for a, b in ("AB", "BA")
    )
    yield "styles-loop.odt", _open_document(ODT, '<text:p text:style-name="A">Look</text:p>', styles=loop)
    yield "macro.odt", packed({"mimetype": ODT, "Basic/script-lc.xml": "<x/>", "content.xml": "<x/>"})
    yield "empty.odt", packed({"mimetype": ODT, "content.xml": ""})


def _sheet(rows: str) -> bytes:
    return _open_document(ODS, f'<table:table table:name="Torques"><table:table-column/>{rows}</table:table>')


def _other_files(outside: str, address: str) -> Iterator[tuple[str, bytes]]:
    yield "picture.rtf", rf'{{\rtf1 {{\field{{\*\fldinst INCLUDEPICTURE "{outside}"}}{{\fldrslt x}}}}}}'.encode()
    yield "deep.rtf", b"{\\rtf1 " + b"{" * 200_000
    yield "object.rtf", b"{\\rtf1{\\object\\objemb\\objautlink{\\*\\objdata " + b"d0cf11e0a1b11ae1" * 200 + b"}}}"
    yield "noise.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + random.Random(3).randbytes(40_000)
    yield "noise.ppt", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + random.Random(4).randbytes(40_000)
    yield "program.xlsx", b"MZ" + bytes(5_000)
    refresh = f"<meta http-equiv=refresh content='0; url={address}'>"
    styles = f"<link rel=stylesheet href='{address}/a.css'><style>@import url({outside});</style>"
    frames = f"<iframe src='{address}'></iframe><img src='{outside}'><object data='{address}'></object>"
    yield "page.html", f"{refresh}{styles}<p>Look.</p>{frames}<script src='{address}'></script>".encode()
    yield "deep.html", b"<div>" * 60_000 + b"Look."
    yield "svg.html", f"<p>Look.</p><svg width=90 height=90><image href='{outside}' width=9 height=9/></svg>".encode()
    picture = base64.b64encode(_png(60_000, 60_000)).decode()
    yield "large-picture.html", f"<p>Look.</p><img src='data:image/png;base64,{picture}'>".encode()
    yield "long.md", b"pump " * 100_000
    yield (
        "front.md",
        b"---\n" + b"a: &a [1]\n" + b"".join(b"b%d: &b%d [*a, *a]\n" % (n, n) for n in range(50)) + b"---\n# Pump\n",
    )
    yield "control.txt", bytes(range(1, 32)) * 500
    yield "large.png", _png(60_000, 60_000)
    yield "loop.tiff", _tiff(3)


@pytest.mark.endurance
@pytest.mark.skipif(office.program() is None, reason="LibreOffice isn't installed")
def test_hostile_documents_are_all_accounted_for(
    tmp_path: Path,
    web: Web,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if missing := missing_isolation():
        pytest.skip("; ".join(missing))
    (tmp_path / "outside.txt").write_text(SECRET)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    places = (tmp_path / "outside.txt").as_uri(), f"http://127.0.0.1:{web.port}/a.png"
    files = {name: data for make in (_word_files, _open_documents, _other_files) for name, data in make(*places)}
    assert len(files) >= 60
    (tmp_path / "source").mkdir()
    for name, data in files.items():
        (tmp_path / "source" / name).write_bytes(data)
    store = open_store(str(tmp_path / "store"))
    outcomes = {
        outcome.doc_id: outcome
        for outcome in parse_documents(
            [ParseJob(sha256(data), name) for name, data in files.items()],
            source=open_source(str(tmp_path / "source")),
            store_address=store.root,
            options=OPTIONS,
            passwords=(),
            run_id=None,
        )
    }
    assert {sha256(data) for data in files.values()} == outcomes.keys()
    codes = {name: [failure.code for failure in outcomes[sha256(data)].failures] for name, data in files.items()}
    assert FailureCode.CRASHED not in {code for of_file in codes.values() for code in of_file}, codes
    for name, data in files.items():
        if not codes[name]:
            parsed = read_parsed(store, parsed_file(sha256(data), parse_key(OPTIONS)))
            assert not any(SECRET in line.text for line in parsed.lines), name
    assert web.asked == []
    assert leftovers(tmp_path) == []
    assert [*(tmp_path / "temporary").iterdir()] == []
    assert not Path("/tmp/inset-hostile").exists()
