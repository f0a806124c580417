"""How LibreOffice makes a PDF: its command, its profile, and what an office file says of itself."""

import functools
import hashlib
import io
import json
import os
import re
import shutil
import zipfile
from pathlib import Path

from schemas.formats import Format

_PROFILE = "profile"
_SYSTEM = ("/usr", "/lib", "/lib64", "/opt", "/proc", "/sys", "/var/cache/fontconfig", "/var/spool/libreoffice")
_SETTINGS = ("fonts", "libreoffice", "ld.so.cache", "localtime", "nsswitch.conf", "passwd", "locale.alias")
SOCKETS = Path("/tmp")  # noqa: S108  LibreOffice makes the socket of its only instance nowhere else
RESTART = 81
"""Exit code of a first start, which made the profile and wants another."""

_FILTERS = {
    Format.TEXT: "writer_pdf_Export",
    Format.SLIDES: "impress_pdf_Export",
    Format.SHEETS: "calc_pdf_Export",
}
_OPTIONS = {"UseTaggedPDF": True, "ExportBookmarks": True, "ExportNotes": False, "ExportFormFields": False}

_ITEM = '<item oor:path="/org.openoffice.{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop></item>'
_SAFE = (
    ("Office.Common/Security/Scripting", "MacroSecurityLevel", "3"),
    ("Office.Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("Office.Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
    ("Office.Common/Security/Scripting", "DisableActiveContent", "true"),
    ("Office.Writer/Content/Update", "Link", "0"),
    ("Office.Calc/Content/Update", "Link", "1"),
)
"""Macros never run, and links aren't updated; the kernel takes network and other files from the process as well."""

_QUICK = (("Setup/Product", "ooSetupLastVersion", "99.9"),)
"""A profile of a later release: in one of an earlier release LibreOffice tests how it draws, at each start.

The tests take 0.9 of the 1.3 CPU-seconds of a small file's conversion by LibreOffice 7.4.
"""


_CHANGES = re.compile(rb"<(?:\w+:(?:del|moveFrom)|text:tracked-changes)[\s/>]")
_RELEASE = re.compile(r'oor:name="ooSetupVersionAboutBox"[^>]*>\s*<value>([^<]+)')


@functools.cache
def program() -> Path | None:
    """Return the program of LibreOffice; None if it isn't installed."""
    command = shutil.which("soffice") or shutil.which("libreoffice")
    if command is None:
        return None
    script = Path(command).resolve()
    binary = script.with_name("soffice.bin")
    return binary if binary.exists() else script


@functools.cache
def release() -> str | None:
    """Return the release of LibreOffice, such as 7.4.7.2; None if it isn't installed."""
    installed = program()
    if installed is None:
        return None
    # ``soffice --version`` takes a second and writes a profile; its registry has the same number.
    registry = installed.parent.parent / "share" / "registry" / "main.xcd"
    stated = _RELEASE.search(registry.read_text(encoding="utf-8")) if registry.exists() else None
    return stated[1] if stated else "unknown"


def write_profile(folder: Path) -> None:
    """Write the profile of one conversion into a folder."""
    user = folder / _PROFILE / "user"
    user.mkdir(parents=True)
    items = "".join(_ITEM.format(path=path, name=name, value=value) for path, name, value in _SAFE + _QUICK)
    head = '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">'
    (user / "registrymodifications.xcu").write_text(f"{head}{items}</oor:items>")


def as_pdf(kind: Format) -> str:
    """Return how LibreOffice prints a format: tagged, with bookmarks, without comments."""
    options = {name: {"type": "boolean", "value": str(value).lower()} for name, value in _OPTIONS.items()}
    return f"pdf:{_FILTERS[kind]}:{json.dumps(options)}"


def has_changes(data: bytes) -> bool:
    """Return whether an office file of text may have tracked changes, whose deleted text LibreOffice would print.

    Headers, footnotes and text boxes have changes of their own, so all parts are searched.
    """
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            return any(_CHANGES.search(package.read(name)) for name in package.namelist() if name.endswith(".xml"))
    return not data.startswith(b"{\\rtf") or b"\\deleted" in data


def command(folder: Path, file: Path, target: str) -> list[str]:
    """Return the command that writes a file in another form into ``out`` of a folder."""
    return [
        str(program()),
        f"-env:UserInstallation={_profile_address(folder)}",
        *("--headless", "--norestore", "--nologo", "--nodefault", "--nofirststartwizard", "--convert-to"),
        *(target, "--outdir", str(folder / "out"), str(file)),
    ]


def _profile_address(folder: Path) -> str:
    return (folder / _PROFILE).as_uri()


def socket(folder: Path) -> Path:
    """Return the socket that LibreOffice makes for the profile of a folder, which it can't remove itself."""
    digest = hashlib.md5(_profile_address(folder).encode("utf-16-le"), usedforsecurity=False).digest()
    return SOCKETS / f"OSL_PIPE_{os.getuid()}_SingleOfficeIPC_{''.join(f'{byte:x}' for byte in digest)}"


def readable() -> list[Path]:
    """Return the folders that LibreOffice reads: programs, fonts and settings."""
    installed = program()
    folders = [*map(Path, _SYSTEM), *(Path("/etc") / name for name in _SETTINGS)]
    return [*folders, *([installed.parent.parent] if installed else [])]


_TIME = re.compile(rb"<(?:dcterms:modified|dcterms:created|dc:date|meta:creation-date)[^>]*>([^<]+)<")
_FACTS = ("docProps/core.xml", "meta.xml")


def written_at(data: bytes) -> str | None:
    """Return when an office file says that it was changed last, such as ``2024-03-31T12:00:00``; None if it doesn't.

    The PDF that LibreOffice makes has the time of the conversion in its place.
    """
    try:
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as package:
                texts = [package.read(name) for name in _FACTS if name in package.namelist()]
            times = sorted(time for text in texts for time in _TIME.findall(text))
            return times[-1].decode("ascii") if times else None
        import olefile

        with olefile.OleFileIO(io.BytesIO(data)) as compound:
            facts = compound.get_metadata()
            time = facts.last_saved_time or facts.create_time
        return None if time is None else time.isoformat()
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
