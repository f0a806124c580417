"""Small office files, written part by part: good ones, and hostile ones."""

import io
import zipfile

_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/><Default Extension="png" ContentType="image/png"/>'
    '<Override PartName="/{part}" ContentType="application/vnd.openxmlformats-officedocument.{type}.main+xml"/></Types>'
)
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
_RELATION = '<Relationship Id="{id}" Type="' + _OFFICE + '/{type}" Target="{target}"{mode}/>'
_CORE = (
    '<?xml version="1.0"?><cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><dc:title>{title}</dc:title>'
    '<dcterms:modified xsi:type="dcterms:W3CDTF">2024-03-31T12:00:00Z</dcterms:modified></cp:coreProperties>'
)
_WORD = (
    '<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="' + _OFFICE + '" xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><w:body>{}</w:body></w:document>'
)
_LINKED_PICTURE = (
    '<w:p><w:r><w:drawing><wp:inline><wp:extent cx="2000000" cy="2000000"/><wp:docPr id="1" name="p"/><a:graphic>'
    '<a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:pic><pic:nvPicPr>'
    '<pic:cNvPr id="1" name="p"/><pic:cNvPicPr/></pic:nvPicPr><pic:blipFill><a:blip r:link="linked{n}"/><a:stretch>'
    '<a:fillRect/></a:stretch></pic:blipFill><pic:spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="2000000" cy="2000000"/></a:xfrm>'
    '<a:prstGeom prst="rect"/></pic:spPr></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>'
)


def packed(parts: dict[str, str | bytes], *, compressed: bool = True) -> bytes:
    """Return a ZIP archive."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as package:
        for name, part in parts.items():
            package.writestr(name, part)
    return archive.getvalue()


def paragraph(text: str) -> str:
    """Return a paragraph of a Word file."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def word(
    *texts: str,
    title: str = "Pump",
    body: str = "",
    header: str = "",
    links: tuple[str, ...] = (),
    more: dict[str, str | bytes] | None = None,
) -> bytes:
    """Return a Word file.

    Args:
        texts: Its paragraphs.
        title: In its properties.
        body: Further XML of the body.
        header: XML of a header of the pages.
        links: Addresses of pictures outside the file, which it shows.
        more: Further parts of the package.
    """
    pictures = "".join(_LINKED_PICTURE.replace("{n}", str(number)) for number in range(len(links)))
    linked = "".join(
        _RELATION.format(id=f"linked{number}", type="image", target=address, mode=' TargetMode="External"')
        for number, address in enumerate(links)
    )
    linked += _RELATION.format(id="header", type="header", target="header.xml", mode="") if header else ""
    section = '<w:sectPr><w:headerReference w:type="default" r:id="header"/></w:sectPr>' if header else ""
    main = _RELATION.format(id="main", type="officeDocument", target="word/document.xml", mode="")
    core = (
        '<Relationship Id="core" Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties" '
        'Target="docProps/core.xml"/>'
    )
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": _TYPES.format(part="word/document.xml", type="wordprocessingml.document"),
        "_rels/.rels": _RELATIONS.format(main + core),
        "docProps/core.xml": _CORE.format(title=title),
        "word/document.xml": _WORD.format("".join(map(paragraph, texts)) + body + pictures + section),
        "word/_rels/document.xml.rels": _RELATIONS.format(linked),
    }
    if header:
        parts["word/header.xml"] = (
            f'<w:hdr xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">{header}</w:hdr>'
        )
    return packed(parts | (more or {}))


_OPEN = "urn:oasis:names:tc:opendocument:xmlns"


def _open_document(kind: str, styles: str, body: str) -> bytes:
    """Return a file of OpenDocument: ``kind`` is spreadsheet or presentation."""
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    entries = "".join(
        f'<m:file-entry m:full-path="{path}" m:media-type="{of}"/>'
        for path, of in (("/", media_type), ("content.xml", "text/xml"))
    )
    names = " ".join(f'xmlns:{name}="{_OPEN}:{name}:1.0"' for name in ("office", "style", "table", "text", "presentation"))
    names += f' xmlns:draw="{_OPEN}:drawing:1.0" xmlns:svg="{_OPEN}:svg-compatible:1.0"'
    content = (
        f'<office:document-content {names} office:version="1.3"><office:automatic-styles>{styles}</office:automatic-styles>'
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    manifest = f'<m:manifest xmlns:m="{_OPEN}:manifest:1.0" m:version="1.3">{entries}</m:manifest>'
    return packed({"mimetype": media_type, "META-INF/manifest.xml": manifest, "content.xml": content})


def _style(name: str, family: str, properties: str) -> str:
    return f'<style:style style:name="{name}" style:family="{family}"><style:{properties}/></style:style>'


def _sheet(name: str, style: str, text: str) -> str:
    cell = f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'
    row = f"<table:table-row>{cell}</table:table-row>"
    return f'<table:table table:name="{name}" table:style-name="{style}"><table:table-column/>{row}</table:table>'


def _slide(style: str, text: str) -> str:
    return (
        f'<draw:page draw:name="{text}" draw:style-name="{style}"><draw:frame svg:x="2cm" svg:y="2cm" svg:width="15cm" '
        f'svg:height="3cm"><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame></draw:page>'
    )


_SHEET_STYLES = _style("hidden", "table", 'table-properties table:display="false"') + _style(
    "shown", "table", 'table-properties table:display="true"'
)
_SLIDE_STYLES = "".join(
    _style(name, "drawing-page", f'drawing-page-properties presentation:visibility="{visibility}"')
    for name, visibility in (("hidden", "hidden"), ("shown", "visible"))
)
HIDDEN: dict[str, tuple[bytes, list[str]]] = {
    "torques.ods": (
        _open_document(
            "spreadsheet", _SHEET_STYLES, _sheet("Torques", "shown", "Bolt") + _sheet("Costs", "hidden", "Secret")
        ),
        ["Torques", "Bolt"],
    ),
    "pump.odp": (
        _open_document("presentation", _SLIDE_STYLES, _slide("shown", "Pump") + _slide("hidden", "Secret")),
        ["Pump"],
    ),
}
"""Files with a hidden sheet or slide, and the lines that are read from them."""
