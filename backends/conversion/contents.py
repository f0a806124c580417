"""Compare a file's content with the ending of its name, before a converter opens it."""

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence

from schemas.errors import BadInputError, FailureCode, rejecting
from schemas.formats import OFFICE, Format, ending, format_of

MOST_UNPACKED_BYTES = 1 << 30
"""Maximum unpacked bytes of an office file; a manual of 1,500 pages with photographs has a tenth."""

MOST_RATIO, RATIO_FROM_BYTES = 150, 64 << 20
"""Largest ratio of unpacked to packed bytes, where it unpacks to more than so many; sheets of numbers have 5 to 30."""

_MAGIC = {
    b"%PDF-": "PDF",
    b"PK\x03\x04": "ZIP archive",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "old Office file (.doc, .ppt or .xls)",
    b"{\\rtf": "RTF file",
    b"\x89PNG\r\n": "PNG picture",
    b"\xff\xd8\xff": "JPEG picture",
    b"II*\x00": "TIFF picture",
    b"MM\x00*": "TIFF picture",
    b"GIF8": "GIF picture",
    b"MZ": "program",
    b"\x7fELF": "program",
}
_ZIP, _OLE, _RTF = "ZIP archive", "old Office file (.doc, .ppt or .xls)", "RTF file"
_HEIC = "HEIC picture or film"
_PICTURES = {
    "PNG picture": ("png",),
    "JPEG picture": ("jpeg", "jpg"),
    "TIFF picture": ("tif", "tiff"),
    _HEIC: ("heic", "heif"),
}

_MAIN_PARTS = {"docx": "wordprocessingml", "pptx": "presentationml", "xlsx": "spreadsheetml"}
"""What the content type of a package's main part contains (ISO 29500-2)."""
_MEDIA_TYPES = {"odt": b"opendocument.text", "odp": b"opendocument.presentation", "ods": b"opendocument.spreadsheet"}
_STREAMS = {"doc": ("WordDocument",), "ppt": ("PowerPoint Document",), "xls": ("Workbook", "Book")}
_MACROS = ("vbaProject.bin", "Basic/script-lc.xml")
_MACRO_STORAGES = ("Macros", "_VBA_PROJECT_CUR", "_VBA_PROJECT")


def check_content(data: bytes, source: str, passwords: Sequence[str] = ()) -> bytes:
    """Return a file's bytes, decrypted, where they are what its name promises.

    Args:
        data: The file.
        source: Its name.
        passwords: Tried on an encrypted office file.

    Raises:
        BadInputError: It is empty, of another format, encrypted, has macros, or unpacks to too many bytes.
    """
    if not data:
        raise BadInputError("the file is empty", FailureCode.EMPTY_FILE)
    kind, content = format_of(source), _content(data)
    if kind in OFFICE:
        return _check_office(data, ending(source), passwords)
    is_right = ending(source) in _PICTURES.get(content, ()) if kind is Format.PICTURE else content == "text"
    if not is_right and kind is not Format.PDF:
        raise _wrong(source, content)
    return data


def _content(data: bytes) -> str:
    """Return what the first bytes of a file say that it is: "text" if they are letters."""
    type_of_magic = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
    if type_of_magic is not None:
        return type_of_magic
    if data[4:8] == b"ftyp":
        return _HEIC
    is_text = data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" not in data[: 1 << 16]
    return "text" if is_text else "binary file of no known format"


def _wrong(source: str, content: str) -> BadInputError:
    suffix = ending(source)
    message = f"its name ends in .{suffix}, but its content is a {content}; give the file its right ending"
    return BadInputError(message.replace("a text", "text"), FailureCode.WRONG_FORMAT)


def _check_office(data: bytes, suffix: str, passwords: Sequence[str]) -> bytes:
    content = _content(data)
    if content == _OLE and (suffix in _STREAMS or suffix in _MAIN_PARTS):
        data = _check_compound(data, suffix, passwords)
        content = _content(data)
    if content == _ZIP and (suffix in _MAIN_PARTS or suffix in _MEDIA_TYPES):
        _check_package(data, suffix)
    elif not (content == _OLE and suffix in _STREAMS) and not (content == _RTF and suffix in ("rtf", "doc")):
        raise _wrong(f".{suffix}", content)
    return data


def _check_compound(data: bytes, suffix: str, passwords: Sequence[str]) -> bytes:
    """Check a compound file, the form of old Office files and of encrypted new ones; return it decrypted."""
    import msoffcrypto
    import olefile
    from msoffcrypto.exceptions import DecryptionError, FileFormatError, InvalidKeyError, ParseError

    also = (DecryptionError, FileFormatError, InvalidKeyError, ParseError, struct.error, EOFError)
    with rejecting("the file can't be opened", FailureCode.UNREADABLE, also=also):
        with olefile.OleFileIO(io.BytesIO(data)) as compound:
            streams = {parts[-1] for parts in compound.listdir(streams=True, storages=True)}
        is_package = "EncryptedPackage" in streams
        if not is_package and (suffix not in _STREAMS or streams.isdisjoint(_STREAMS[suffix])):
            raise _wrong(f".{suffix}", _OLE)
        if not streams.isdisjoint(_MACRO_STORAGES):
            raise _macros()
        office = msoffcrypto.OfficeFile(io.BytesIO(data))
        is_encrypted = bool(office.is_encrypted())
    for password in passwords if is_encrypted else ():
        plain = io.BytesIO()
        try:
            office.load_key(password=password)
            office.decrypt(plain)
        except also:
            continue
        return plain.getvalue()
    if is_encrypted:
        raise BadInputError("the file needs a password; none of those given opens it", FailureCode.NEEDS_PASSWORD)
    return data


def _check_package(data: bytes, suffix: str) -> None:
    """Check a ZIP package, the form of Office files since 2007 and of OpenDocument files."""
    also = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error)
    with (
        rejecting("the file can't be unpacked", FailureCode.UNREADABLE, also=also),
        zipfile.ZipFile(io.BytesIO(data)) as package,
    ):
        names = {member.filename for member in package.infolist()}
        unpacked = sum(member.file_size for member in package.infolist())
        if unpacked > MOST_UNPACKED_BYTES or (unpacked > RATIO_FROM_BYTES and unpacked > MOST_RATIO * len(data)):
            message = f"its {len(data) >> 10} KiB unpack to {unpacked >> 20} MiB; Inset takes this for a ZIP bomb"
            raise BadInputError(message, FailureCode.ZIP_BOMB)
        if any(name.endswith(_MACROS) for name in names):
            raise _macros()
        if suffix in _MAIN_PARTS:
            types = package.read("[Content_Types].xml") if "[Content_Types].xml" in names else b""
            is_right = f"{_MAIN_PARTS[suffix]}.".encode() in types
        else:
            is_right = "mimetype" in names and _MEDIA_TYPES[suffix] in package.read("mimetype")
        if not is_right:
            raise _wrong(f".{suffix}", "ZIP archive of another kind")
        if "META-INF/manifest.xml" in names and b"encryption-data" in package.read("META-INF/manifest.xml"):
            raise BadInputError("the file needs a password, and Inset can't open it with one", FailureCode.NEEDS_PASSWORD)


def _macros() -> BadInputError:
    return BadInputError("the file has macros, which Inset never runs; save it without them", FailureCode.HAS_MACROS)
