"""The PDFs that a version's documents in other formats were converted into."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from backends.conversion import office, printing
from backends.stores.objects import read_names, unless_damaged
from schemas.errors import FailureCode
from schemas.formats import OFFICE, format_of
from schemas.ids import converted_file, document_file, version_file
from schemas.ports import ObjectStore
from schemas.versions import LedgerRow, SourceFile
from workers.convert import converter_of

_FILE = "converted.json"


def read_converted(store: ObjectStore, version: str) -> dict[str, str]:
    """Return the names of converted PDFs in the store, by document id; {} where all documents of a version are PDFs."""
    try:
        return read_names(store, version_file(version, _FILE))
    except FileNotFoundError:
        return {}


def write_converted(store: ObjectStore, version: str, names: Mapping[str, str]) -> None:
    """Write the names of converted PDFs; nothing where there are none."""
    if names:
        store.replace(version_file(version, _FILE), json.dumps(dict(names), sort_keys=True).encode())


def pdf_of(doc_id: str, converted: Mapping[str, str]) -> str:
    """Return the name of a document's PDF in the store."""
    return converted.get(doc_id) or document_file(doc_id)


def converted_otherwise(store: ObjectStore, version: str, ledger: Iterable[LedgerRow]) -> dict[str, str]:
    """Return the documents of a version that another release would convert now, with what converted them."""
    names = unless_damaged(lambda: read_converted(store, version)) or {}
    otherwise = {}
    for row in ledger if names else ():
        converter = converter_of(row.source)
        if row.doc_id in names and converter and converted_file(row.doc_id, converter) != names[row.doc_id]:
            otherwise[row.doc_id] = names[row.doc_id].rpartition("/")[2].removesuffix(".pdf")
    if office.program() is None:
        return {doc_id: converter for doc_id, converter in otherwise.items() if not converter.startswith("libreoffice")}
    return otherwise


def wait_no_longer(ledger: Sequence[LedgerRow]) -> frozenset[str]:
    """Return the documents in quarantine for want of a converter that is installed now."""
    codes = {row.code for row in ledger}
    installed = {code for code, is_there in _CONVERTERS.items() if code in codes and is_there()}
    return frozenset(row.doc_id for row in ledger if row.code in installed)


_CONVERTERS: Mapping[FailureCode, Callable[[], object]] = {
    FailureCode.NEEDS_LIBREOFFICE: office.program,
    FailureCode.NEEDS_PANGO: printing.is_installed,
}


def conversion_advice(corpus: str, files: Sequence[SourceFile], otherwise: Mapping[str, str]) -> list[str]:
    """Return what a plan says of conversions: what lacks LibreOffice, and what other releases converted."""
    advice = []
    if lacking := without_libreoffice(files):
        advice.append(
            f"{lacking} of the source's files need LibreOffice, which isn't installed here: they go to quarantine as "
            f"{FailureCode.NEEDS_LIBREOFFICE}"
        )
    for converter, documents in sorted(Counter(otherwise.values()).items()):
        advice.append(
            f"{documents} documents stay as {converter} converted them; to convert them by the present release: "
            f"inset refresh {corpus} --reconvert"
        )
    return advice


def without_libreoffice(files: Iterable[SourceFile]) -> int:
    """Return how many files can't be converted because LibreOffice isn't installed."""
    return 0 if office.program() is not None else sum(format_of(file.source) in OFFICE for file in files)
