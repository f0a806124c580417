"""What the last refresh left out, by document and by code, with what to do about it."""

from collections import Counter
from datetime import datetime

from pipeline.records.ledger import read_failures, read_ledger
from pipeline.records.manifests import last_manifest
from schemas.base import Frozen
from schemas.errors import FailureCode, pages_by_cause
from schemas.ports import ObjectStore
from schemas.stages import Step
from schemas.versions import Status

_BY_ITSELF = "the next refresh tries it again by itself"
_BY_OCR = "The other pages are indexed. Set captions.ocr, and the page is read by OCR."

REMEDIES = {
    FailureCode.NEEDS_PASSWORD: "Add its password to the variable that parse.passwords_env names, then replay.",
    FailureCode.NOT_A_PDF: f"Replace the file in the source by a PDF ({_BY_ITSELF}), or remove it.",
    FailureCode.EMPTY_FILE: f"Put the file into the source again ({_BY_ITSELF}), or remove it.",
    FailureCode.NO_PAGES: f"Replace the file by a whole copy ({_BY_ITSELF}), or remove it.",
    FailureCode.UNREADABLE: f"Replace the file by a whole copy ({_BY_ITSELF}); saving it again in a PDF viewer often repairs it.",
    FailureCode.DAMAGED: f"Replace the file by a whole copy ({_BY_ITSELF}); saving it again in a PDF viewer often repairs it.",
    FailureCode.TIME_LIMIT: f"Raise parse.timeout_s in the corpus file; {_BY_ITSELF}.",
    FailureCode.MEMORY_LIMIT: "Raise parse.memory_mb in the corpus file, or give the machine more memory, then replay.",
    FailureCode.PAGE_LIMIT: f"Raise parse.max_pages in the corpus file, or split the document; {_BY_ITSELF}.",
    FailureCode.CRASHED: "Report the document; saving it again in a PDF viewer often helps. Replay after an upgrade.",
    FailureCode.SOURCE_CHANGED: f"Nothing to do: {_BY_ITSELF}.",
    FailureCode.SOURCE_UNREADABLE: f"Let the user of refreshes read the file; {_BY_ITSELF}.",
    FailureCode.FONT_UNREADABLE: _BY_OCR,
    FailureCode.NEEDS_OCR: _BY_OCR,
    FailureCode.PAGE_UNREADABLE: "The other pages are indexed. Replace the file by one whose page a PDF viewer shows.",
    FailureCode.LAYOUT_FAILED: "The page is indexed as rules read it. If all fail, reinstall pymupdf-layout and replay.",
    FailureCode.PAGE_TOO_LARGE: "The other pages are indexed. Scale or split the page in the source.",
    FailureCode.IMAGE_REJECTED: "The rest of the page is indexed. Replace the picture in the source if it matters.",
    FailureCode.MODEL_FAILED: "Replay once the model is changed; the message says what it could not do.",
    FailureCode.MODEL_CRASHED: f"Give the machine of the model more memory; {_BY_ITSELF}.",
    FailureCode.MODEL_UNREACHABLE: f"See whether the model's server answers; {_BY_ITSELF}.",
    FailureCode.OVER_BUDGET: f"Raise the budget in the corpus file; {_BY_ITSELF}.",
    FailureCode.TAGGING_FAILED: "The document is indexed; only its copy with tags is missing. Report the document.",
    FailureCode.EARLIER_KEPT: f"Correct what the message says, or put a whole copy there ({_BY_ITSELF}). A password or a larger "
    "limit needs a replay. Or take the file as it is: inset quarantine CORPUS --accept SOURCE, Accept… in Airflow.",
    FailureCode.WRONG_FORMAT: f"Give the file the ending of its content ({_BY_ITSELF}), or remove it.",
    FailureCode.HAS_MACROS: f"Save the file without its macros, which Inset never runs ({_BY_ITSELF}).",
    FailureCode.ZIP_BOMB: f"Replace the file by a smaller one ({_BY_ITSELF}), or remove it.",
    FailureCode.SHEET_TOO_LARGE: f"Split the sheet, or export what matters of it ({_BY_ITSELF}).",
    FailureCode.NOT_CONVERTED: f"Open the file in its program and save it again, or as a PDF ({_BY_ITSELF}).",
    FailureCode.NEEDS_LIBREOFFICE: f"Install LibreOffice on the machines of refreshes (see inset doctor); {_BY_ITSELF}.",
    FailureCode.NEEDS_PANGO: f"Install Pango on the machines of refreshes (see inset doctor); {_BY_ITSELF}.",
    FailureCode.HAS_ATTACHMENTS: "The pages are indexed. Save the attachments into the source if their content matters.",
    FailureCode.CORRECTION_LOST: "The document is indexed without it. Correct it anew, or: inset correct CORPUS --undo ID, "
    "Corrections in Airflow.",
    FailureCode.LAW_BROKEN: "A fault of Inset: report the document with the message. Replay after an upgrade.",
}
"""What an operator can do about each code."""


class QuarantinedDocument(Frozen):
    """Failures of a document that differ in their page only.

    Attributes:
        source: Where the document is in the source.
        doc_id: Its id; None if its bytes can't be read.
        left_out: Whether the version lacks the document; else only parts of it.
        step: The step that failed.
        code: Why.
        message: The finding.
        remedy: What to do.
        pages: The pages; [] for the whole document.
    """

    source: str
    doc_id: str | None
    left_out: bool
    step: str
    code: FailureCode
    message: str
    remedy: str
    pages: list[int]


class Quarantine(Frozen):
    """The failures of the newest finished version's refresh.

    Attributes:
        version: The version.
        created: When it was finished.
        documents: Documents with what failed, those that are left out first; None where the store no longer has them.
    """

    version: str
    created: datetime
    documents: list[QuarantinedDocument] | None

    @property
    def left_out(self) -> int:
        """Return how many sources the version lacks, as other pages count them."""
        return len({entry.source for entry in self.documents or [] if entry.left_out})

    @property
    def partly_read(self) -> int:
        """Return of how many sources only parts failed."""
        return len({entry.source for entry in self.documents or []}) - self.left_out

    @property
    def codes(self) -> dict[FailureCode, int]:
        """Return how many entries each code has, the most frequent first."""
        return dict(Counter(entry.code for entry in self.documents or []).most_common())

    def matching(self, code: FailureCode | None, source: str) -> list[QuarantinedDocument]:
        """Return the entries of a code, where it isn't None, whose source contains a text, whatever its case."""
        return [
            entry
            for entry in self.documents or []
            if (code is None or entry.code is code) and source.casefold() in entry.source.casefold()
        ]


def quarantine(store: ObjectStore) -> Quarantine | None:
    """Return what the last refresh left out; None where no version was finished yet.

    Raises:
        TransientError: The stored failures, or the ledger, can't be read.
    """
    last = last_manifest(store)
    if last is None:
        return None
    failures = read_failures(store, last)
    if failures is None:
        return Quarantine(version=last.version, created=last.created, documents=None)
    ledger = read_ledger(store, last.version) if failures else ()
    left_out = {row.source for row in ledger if row.status is Status.QUARANTINED}
    documents = [
        QuarantinedDocument(
            source=failure.source,
            doc_id=failure.doc_id,
            left_out=failure.source in left_out and failure.step != Step.TAG,
            step=failure.step,
            code=failure.code,
            message=failure.message,
            remedy=REMEDIES[failure.code],
            pages=pages,
        )
        for failure, pages in pages_by_cause(failures)
    ]
    documents.sort(key=lambda entry: (not entry.left_out, entry.source))
    return Quarantine(version=last.version, created=last.created, documents=documents)
