"""Convert documents into PDFs, in the child process that then reads them."""

import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from backends.conversion import office
from backends.conversion.contents import check_content
from backends.conversion.flat import ENDINGS, prepared
from backends.conversion.printing import RELEASE as WEASYPRINT
from backends.conversion.printing import as_html, parts_of, print_pdf
from backends.pdf.converted import finished, is_cut, picture_pdf
from backends.pdf.opening import RELEASE as PYMUPDF
from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, FailureCode
from schemas.formats import OFFICE, WEB, Format, ending, format_of
from workers.isolation import confine

CONVERT_VERSION = "2"
"""Raised whenever a conversion's output changes; part of the names of converted PDFs."""

HANGS_AFTER = 3
"""Times ``parse.timeout_s`` of wall time after which LibreOffice is stopped: a hang takes no CPU time."""

_STARTS = 3
"""Starts of LibreOffice that one conversion may take: the first writes the profile and wants another."""

_MOST_PARTS, _MOST_PART_BYTES = 2_000, 256 << 20
"""Most pictures and style sheets of a page, and their bytes; further ones are left out."""

_NEAR_LIMIT = 0.8


def converter_of(source: str) -> str | None:
    """Name what converts a document now, with its release: part of the name of its PDF; None for a PDF."""
    kind = format_of(source)
    if kind is Format.PDF:
        return None
    if kind in OFFICE:
        return f"libreoffice-{office.release() or 'missing'}-{CONVERT_VERSION}"
    return (
        f"pymupdf-{PYMUPDF}-{CONVERT_VERSION}" if kind is Format.PICTURE else f"weasyprint-{WEASYPRINT}-{CONVERT_VERSION}"
    )


class Conversion:
    """One document made into a PDF: ``prepare`` needs its source and programs, ``finish`` neither."""

    def __init__(self, data: bytes, source: str, passwords: Sequence[str]) -> None:
        self._data, self._source, self._kind = check_content(data, source, passwords), source, format_of(source)
        self._page, self._parts, self._pdf, self._notes = "", dict[str, bytes](), b"", list[str]()

    def prepare(self, read: Callable[[str], bytes], options: ParseOptions, folder: Path) -> None:
        """Read the parts of a page, or let LibreOffice make the PDF in a folder; before this process is isolated."""
        if self._kind in OFFICE:
            self._pdf, self._notes = _by_libreoffice(self._data, self._source, options, folder)
        elif self._kind is not Format.PICTURE:
            self._page = as_html(self._data, self._source)
            if self._kind in WEB:
                self._parts = _parts(self._page, self._source, read)

    def finish(self) -> bytes:
        """Return the PDF."""
        if self._kind is Format.PICTURE:
            return finished(picture_pdf(self._data, self._source), None)
        if self._kind in OFFICE:
            return finished(self._pdf, office.written_at(self._data), self._notes)
        pdf = print_pdf(self._page, self._source, self._parts)
        return print_pdf(self._page, self._source, self._parts, breaks_words=True) if is_cut(pdf) else pdf


def remove_leftovers(folder: Path) -> None:
    """Remove what a conversion wrote in its folder and beside it, however its process ended."""
    shutil.rmtree(folder, ignore_errors=True)
    office.socket(folder).unlink(missing_ok=True)


def _parts(page: str, source: str, read: Callable[[str], bytes]) -> dict[str, bytes]:
    """Return the pictures and style sheets of a page, and those of its style sheets, as far as the source has them."""
    parts: dict[str, bytes] = {}
    waiting, requested, size = [*parts_of(page, source)], set[str](), 0
    while waiting and len(requested) < _MOST_PARTS and size < _MOST_PART_BYTES:
        name = waiting.pop()
        if name in requested:
            continue
        requested.add(name)
        try:
            parts[name] = read(name)
        except (FileNotFoundError, BadInputError):
            continue
        size += len(parts[name])
        if ending(name) == "css":
            waiting += parts_of(parts[name].decode("utf-8", "replace"), name)
    return parts


def _by_libreoffice(data: bytes, source: str, options: ParseOptions, folder: Path) -> tuple[bytes, list[str]]:
    """Return the PDF of an office file, and the speaker's notes of its slides."""
    if office.program() is None:
        message = f"LibreOffice isn't installed, which converts .{ending(source)} files; install it on this machine"
        raise BadInputError(message, FailureCode.NEEDS_LIBREOFFICE)
    kind, file, notes = format_of(source), folder / f"document.{ending(source)}", list[str]()
    file.write_bytes(data)
    office.write_profile(folder)
    if kind is not Format.TEXT or office.has_changes(data):
        file = _written(folder, file, ENDINGS[kind], ENDINGS[kind], options)
        flat, notes = prepared(file.read_bytes(), kind)
        file.write_bytes(flat)
    return _written(folder, file, office.as_pdf(kind), "pdf", options).read_bytes(), notes


def _written(folder: Path, file: Path, target: str, suffix: str, options: ParseOptions) -> Path:
    """Let LibreOffice write a file in another form, and return that."""
    output = folder / "out" / f"document.{suffix}"
    confined = partial(confine, folder, office.readable(), office.SOCKETS)
    environment = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    code = office.RESTART
    try:
        for _ in range(_STARTS):
            if code != office.RESTART:
                break
            office.socket(folder).unlink(missing_ok=True)
            code = subprocess.run(
                office.command(folder, file, target),
                preexec_fn=confined,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=HANGS_AFTER * options.timeout_s,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired as error:
        message = f"LibreOffice hung at it for {HANGS_AFTER} times parse.timeout_s, and was stopped"
        raise BadInputError(message, FailureCode.TIME_LIMIT) from error
    if output.exists():
        return output
    raise _failure(code, options)


def _failure(code: int, options: ParseOptions) -> BadInputError:
    """Return why LibreOffice made no PDF."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        message = "LibreOffice took longer than parse.timeout_s allows, and was stopped"
        return BadInputError(message, FailureCode.TIME_LIMIT)
    peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    if peak_mib > _NEAR_LIMIT * options.memory_mb:
        message = f"LibreOffice ended at {peak_mib} MiB; parse.memory_mb is {options.memory_mb}"
        return BadInputError(message, FailureCode.MEMORY_LIMIT)
    how = f"crashed (signal {-code})" if code < 0 else "made no PDF of it"
    return BadInputError(
        f"LibreOffice {how}; the file is damaged, or of a kind that it can't read", FailureCode.NOT_CONVERTED
    )
