"""The formats that documents have, by the ending of their names; all but PDFs are converted into one."""

from collections.abc import Iterable
from enum import StrEnum
from types import MappingProxyType

from schemas.versions import SourceFile


class Format(StrEnum):
    """What a document is to the converter that makes a PDF of it."""

    PDF = "pdf"
    TEXT = "text"
    SLIDES = "slides"
    SHEETS = "sheets"
    HTML = "html"
    MARKDOWN = "markdown"
    PLAIN = "plain"
    PICTURE = "picture"


OFFICE = frozenset({Format.TEXT, Format.SLIDES, Format.SHEETS})
"""The formats that LibreOffice converts."""

WEB = frozenset({Format.HTML, Format.MARKDOWN})
"""The formats whose pictures are files beside them."""

FORMATS = MappingProxyType(
    {"pdf": Format.PDF}
    | dict.fromkeys(("doc", "docx", "odt", "rtf"), Format.TEXT)
    | dict.fromkeys(("ppt", "pptx", "odp"), Format.SLIDES)
    | dict.fromkeys(("xls", "xlsx", "ods"), Format.SHEETS)
    | dict.fromkeys(("htm", "html", "xhtml"), Format.HTML)
    | dict.fromkeys(("md", "markdown"), Format.MARKDOWN)
    | {"txt": Format.PLAIN}
    | dict.fromkeys(("heic", "heif", "jpeg", "jpg", "png", "tif", "tiff"), Format.PICTURE)
)
"""Formats by ending, in small letters."""


def ending(name: str) -> str:
    """Return the ending of a file's name in small letters, without the dot; "" without one."""
    return name.rpartition("/")[2].rpartition(".")[2].lower() if "." in name else ""


def format_of(name: str) -> Format:
    """Return the format that a file's name promises; a PDF where the ending is none of those known."""
    return FORMATS.get(ending(name), Format.PDF)


def sorted_documents(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the documents among files, sorted by name.

    A picture in or below the folder of a HTML or Markdown file belongs to that page, and is no document of its own.
    """
    by_name = {file.source: file for file in files}
    names = sorted(by_name)
    pages = {name.rpartition("/")[0] for name in names if format_of(name) in WEB}

    def belongs_to_page(name: str) -> bool:
        folders = name.split("/")[:-1]
        return any("/".join(folders[:depth]) in pages for depth in range(len(folders) + 1))

    return [by_name[name] for name in names if format_of(name) is not Format.PICTURE or not belongs_to_page(name)]
