"""Change a document between LibreOffice's reading and printing it, in the flat XML that LibreOffice writes (OpenDocument 1.3).

Sheets get pages as wide as they are, with grid lines and their names as headings; slides are named by their titles; what is
hidden, commented or deleted goes.
"""

import copy
from collections.abc import Iterator
from xml.etree import ElementTree as Xml
from xml.parsers import expat

from schemas.errors import BadInputError, FailureCode
from schemas.formats import Format

MOST_WIDTH_CM, MOST_CELLS = 500.0, 2_000_000
"""Widest sheet, the length that a page of a PDF may have, and most cells with content; beyond it a sheet fails."""

ENDINGS = {Format.TEXT: "fodt", Format.SLIDES: "fodp", Format.SHEETS: "fods"}
"""Endings of the flat form of each format."""

_MARGIN_CM, _HEIGHT_CM, _LEAST_WIDTH_CM = 1.0, 29.7, 21.0
_DEFAULT_COLUMN_CM = 2.3
_CM = {"in": 2.54, "cm": 1.0, "mm": 0.1, "pt": 2.54 / 72}

_GONE = ("office:annotation", "office:annotation-end", "text:tracked-changes")


def prepared(flat: bytes, kind: Format) -> tuple[bytes, list[str]]:
    """Return a flat document as it is to be printed, and the speaker's notes of each printed slide.

    Raises:
        BadInputError: A sheet is too large.
    """
    root = _parsed(flat)
    body = root.find("office:body")
    notes: list[str] = []
    if body is not None:
        _remove_deleted(root)
        for parent in root.iter():
            for child in [*parent]:
                if child.tag in _GONE:
                    _remove(parent, child)
        if kind is Format.SHEETS:
            _set_sheets(root, body)
        elif kind is Format.SLIDES:
            notes = [_named_by_title(page) for page in _shown_slides(root, body)]
    return Xml.tostring(root, encoding="utf-8", xml_declaration=True), notes


def _remove_deleted(root: Xml.Element) -> None:
    """Remove the text and pictures of tracked deletions, which may begin in one paragraph and end in another."""
    changes = root.iter("text:changed-region")
    deletions = {change.get("text:id") for change in changes if change.find("text:deletion") is not None}
    open_ids: set[str | None] = set()

    def visit(parent: Xml.Element) -> None:
        for child in [*parent]:
            change = child.get("text:change-id")
            if child.tag == "text:change-start" and change in deletions:
                open_ids.add(change)
            elif child.tag == "text:change-end":
                open_ids.discard(change)
            elif open_ids and child.tag == "draw:frame":
                _remove(parent, child)
                continue
            if open_ids:
                child.text = None
            visit(child)
            if open_ids:
                child.tail = None

    if deletions:
        visit(root)


def _parsed(flat: bytes) -> Xml.Element:
    """Return a document with its tags and attributes as LibreOffice writes them, such as ``table:table``."""
    builder, parser = Xml.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(flat, True)
    return builder.close()


def _remove(parent: Xml.Element, child: Xml.Element) -> None:
    """Remove an element, and keep the text behind it."""
    position = [*parent].index(child)
    if child.tail and position:
        parent[position - 1].tail = (parent[position - 1].tail or "") + child.tail
    elif child.tail:
        parent.text = (parent.text or "") + child.tail
    parent.remove(child)


def _set_sheets(root: Xml.Element, body: Xml.Element) -> None:
    automatic, master = (_part(root, name) for name in ("office:automatic-styles", "office:master-styles"))
    styles = {style.get("style:name"): style for style in automatic.findall("style:style")}
    _add_heading_style(automatic)
    for spreadsheet in body.findall("office:spreadsheet"):
        for number, sheet in enumerate([*spreadsheet.findall("table:table")]):
            style = styles.get(sheet.get("table:style-name"))
            of_sheet = None if style is None else style.find("style:table-properties")
            if of_sheet is not None and of_sheet.get("table:display") == "false":
                spreadsheet.remove(sheet)
                continue
            rows, columns = _used(sheet)
            if not rows:
                spreadsheet.remove(sheet)
                continue
            _set_sheet(sheet, columns, styles)
            page = f"sheet{number}"
            _add_page(automatic, master, page, _width_cm(sheet, columns, styles))
            sheet_style = Xml.Element("style:style") if style is None else copy.deepcopy(style)
            sheet_style.set("style:name", page)
            sheet_style.set("style:family", "table")
            sheet_style.set("style:master-page-name", page)
            automatic.append(sheet_style)
            sheet.set("table:style-name", page)


def _part(root: Xml.Element, name: str) -> Xml.Element:
    part = root.find(name)
    return Xml.SubElement(root, name) if part is None else part


def _cells(row: Xml.Element) -> Iterator[tuple[Xml.Element, int]]:
    for cell in row:
        if cell.tag in ("table:table-cell", "table:covered-table-cell"):
            yield cell, int(cell.get("table:number-columns-repeated", "1"))


def _used(sheet: Xml.Element) -> tuple[int, int]:
    """Return how many rows have content, and up to which column; raises ``BadInputError`` if they are too many."""
    rows = last = cells = 0
    for row in sheet.iter("table:table-row"):
        column = 0
        has_content = False
        for cell, repeated in _cells(row):
            column += repeated
            if len(cell):
                has_content, last = True, max(last, column)
                cells += repeated * int(row.get("table:number-rows-repeated", "1"))
        rows += has_content
    if cells > MOST_CELLS:
        sheet_name = sheet.get("table:name")
        raise BadInputError(
            f"sheet {sheet_name!r} has {cells} cells, more than {MOST_CELLS}; split it", FailureCode.SHEET_TOO_LARGE
        )
    return rows, last


def _set_sheet(sheet: Xml.Element, columns: int, styles: dict[str | None, Xml.Element]) -> None:
    """Print the whole sheet as it is stored, below a heading of its name."""
    for attribute in ("table:print", "table:print-ranges"):
        sheet.attrib.pop(attribute, None)
    for cell in sheet.iter("table:table-cell"):
        # The heading moves all rows, so that references would be wrong; the stored values are right.
        cell.attrib.pop("table:formula", None)
    heading = Xml.Element("table:table-row")
    cell = Xml.SubElement(heading, "table:table-cell", {"table:style-name": "sheet-heading"})
    cell.set("office:value-type", "string")
    cell.set("table:number-columns-spanned", str(max(1, columns)))
    Xml.SubElement(cell, "text:p").text = sheet.get("table:name")
    children = [*sheet]
    tags = {f"table:table-{kind}" for kind in ("row", "header-rows", "row-group", "rows")}
    sheet.insert(next(index for index, child in enumerate(children) if child.tag in tags), heading)


def _width_cm(sheet: Xml.Element, columns: int, styles: dict[str | None, Xml.Element]) -> float:
    width, number = 0.0, 0
    for column in sheet.iter("table:table-column"):
        repeated = min(int(column.get("table:number-columns-repeated", "1")), columns - number)
        style = styles.get(column.get("table:style-name"))
        properties = None if style is None else style.find("style:table-column-properties")
        stated = "" if properties is None else properties.get("style:column-width", "")
        number += max(repeated, 0)
        if column.get("table:visibility") not in ("collapse", "filter"):
            width += max(repeated, 0) * (
                float(stated[:-2]) * _CM[stated[-2:]] if stated[-2:] in _CM else _DEFAULT_COLUMN_CM
            )
    if width > MOST_WIDTH_CM:
        message = f"sheet {sheet.get('table:name')!r} is {width / 100:.1f} m wide, more than {MOST_WIDTH_CM / 100:.0f} m"
        raise BadInputError(f"{message}; split it", FailureCode.SHEET_TOO_LARGE)
    return width


def _add_heading_style(automatic: Xml.Element) -> None:
    style = Xml.SubElement(automatic, "style:style", {"style:name": "sheet-heading", "style:family": "table-cell"})
    Xml.SubElement(style, "style:table-cell-properties", {"fo:border": "none"})
    Xml.SubElement(style, "style:text-properties", {"fo:font-size": "16pt", "fo:font-weight": "bold"})


def _add_page(automatic: Xml.Element, master: Xml.Element, page: str, width_cm: float) -> None:
    """Add a page that is as wide as a sheet, with grid lines, which show the reader a table."""
    layout = Xml.SubElement(automatic, "style:page-layout", {"style:name": page})
    margin = f"{_MARGIN_CM}cm"
    properties = {
        "fo:page-width": f"{max(_LEAST_WIDTH_CM, width_cm + 3 * _MARGIN_CM):.2f}cm",
        "fo:page-height": f"{_HEIGHT_CM}cm",
        **{f"fo:margin-{side}": margin for side in ("top", "bottom", "left", "right")},
        "style:scale-to": "100%",
        "style:print": "charts drawings grid objects zero-values",
    }
    Xml.SubElement(layout, "style:page-layout-properties", properties)
    added = Xml.SubElement(master, "style:master-page", {"style:name": page, "style:page-layout-name": page})
    for part in ("style:header", "style:footer"):
        Xml.SubElement(added, part, {"style:display": "false"})


def _shown_slides(root: Xml.Element, body: Xml.Element) -> list[Xml.Element]:
    hidden = {
        style.get("style:name")
        for style in _part(root, "office:automatic-styles").findall("style:style")
        for properties in style.findall("style:drawing-page-properties")
        if properties.get("presentation:visibility") == "hidden"
    }
    slides = body.iter("draw:page")
    return [slide for slide in slides if slide.get("draw:style-name") not in hidden]


def _named_by_title(slide: Xml.Element) -> str:
    """Name a slide by its title, which its bookmark then has; return its speaker's notes."""
    titles = [frame for frame in slide.findall("draw:frame") if frame.get("presentation:class") == "title"]
    title = " ".join(" ".join(titles[0].itertext()).split()) if titles else ""
    if title:
        slide.set("draw:name", title)
    notes = slide.find("presentation:notes")
    frames = [] if notes is None else notes.findall("draw:frame")
    texts = [frame for frame in frames if frame.get("presentation:class") == "notes"]
    return "\n".join(line for frame in texts for part in frame.iter("text:p") if (line := "".join(part.itertext()).strip()))
