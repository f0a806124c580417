"""Ledger, plan, manifest, pointer and lease of refreshes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import AliasChoices, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from schemas.base import Frozen
from schemas.corpus import Corpus
from schemas.corrections import StoredCorrection
from schemas.errors import FailureCode
from schemas.gates import GateResult
from schemas.ids import FIRST_VERSION
from schemas.models import Subject
from schemas.parquet import optional, required

Outcome = Literal["build", "unchanged", "ready", "refused", "held"]
"""The outcome of a plan.

``build`` a version; the live one is ``unchanged``; or a version of the same inputs exists and is ``ready`` to be published,
was ``refused`` by a gate, or is ``held`` back since a rollback.
"""


class Status(StrEnum):
    """The state of a source."""

    INDEXED = "indexed"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A source and its state.

    ``stamp`` is the modification time in nanoseconds, or the ETag: equal size and stamp mean unchanged. ``attempt`` is the key of
    the last try, limits included: a quarantined document is retried only when it changes. ``doc_id`` is "" if the bytes can't be
    read. ``newer`` is the SHA-256 of the source's bytes, "" if they can't be read, where for a reason in ``message`` the document
    of earlier ones is kept; it has a ``code`` then if the bytes give no document.
    """

    source: str
    doc_id: str
    size: int
    stamp: str
    status: Status
    attempt: str
    pages: int = 0
    code: FailureCode | None = None
    step: str | None = None
    page: int | None = None
    message: str | None = None
    newer: str | None = None

    @property
    def bytes_id(self) -> str:
        """SHA-256 of the source's bytes: the document's id, unless the document is of earlier bytes."""
        return self.doc_id if self.newer is None else self.newer


FAILURES = pa.schema(
    (
        *required(
            source=pa.string(),
        ),
        *optional(
            doc_id=pa.string(),
            page=pa.int32(),
        ),
        *required(
            step=pa.string(),
            code=pa.string(),
            message=pa.string(),
        ),
        *optional(
            run_id=pa.string(),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file in its source's listing, by its path below it; ``problem``, if the listing shows it, says why it can't be read.

    ``size`` is in bytes, None where the listing doesn't tell it.
    """

    source: str
    size: int | None
    stamp: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A source of the next version, with the digest of its bytes; ``newer``, ``message`` and ``code`` as in ``LedgerRow``."""

    source: str
    doc_id: str
    size: int
    stamp: str
    newer: str | None = None
    message: str | None = None
    code: FailureCode | None = None

    @property
    def bytes_id(self) -> str:
        """As of ``LedgerRow``."""
        return self.doc_id if self.newer is None else self.newer


class Spent(Frozen):
    """The cost of calls; ``money`` in the currency of the corpus file's prices."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(**{name: value + getattr(other, name) for name, value in self})

    def __sub__(self, other: "Spent") -> "Spent":
        return self + other.times(-1)

    def times(self, number: float) -> "Spent":
        """Return a multiple; calls and tokens are whole numbers."""
        return Spent(**{name: type(value)(value * number) for name, value in self})


class ExpectedCalls(Frozen):
    """The expected calls of a captioner, or of an embedding model at an endpoint, in a refresh."""

    subject: Subject = Field("figure", description="What it describes or embeds.")
    work: Literal["describe", "embed"] = "describe"
    items: int = Field(description="Figures, pages or texts that it hasn't described or embedded yet.")
    estimated: int = Field(description="Those of them that are estimated, since their documents are still to be read.")
    affordable: int = Field(description="Those of them that the budget holds.")
    spent: Spent = Field(description="What all of them would cost.")
    money_of_calls: float | None = Field(
        None, description="Where they are asked for in batches: the price of single calls."
    )


def in_words(expected: ExpectedCalls) -> str:
    """Describe the expected calls of a model."""
    about = "about " if expected.estimated else ""
    spent = expected.spent
    cost = f"{spent.calls:,} calls, {spent.input_tokens + spent.output_tokens:,} tokens"
    money = f", {spent.money:,.2f} by its price" if spent.money else ""
    if spent.money and expected.money_of_calls is not None:
        money += f" in batches, {expected.money_of_calls:,.2f} in single calls"
    short = f"; the budget holds {expected.affordable:,} of them" if expected.affordable < expected.items else ""
    return f"{about}{expected.items:,} {expected.subject}s to {expected.work}, {cost}{money}{short}"


class PlanSummary(Frozen, extra="ignore"):
    """What a refresh would do and spend: numbers of sources, and of documents to parse."""

    new: int
    changed: int
    gone: int
    kept: int
    to_parse: int
    bytes_to_parse: int
    pages_to_parse: int = Field(0, description="Pages of the documents to parse, counted in PDFs that were opened.")
    pages_estimated: int = Field(0, description="Those of them that are guessed from bytes.")
    minutes: float = Field(0.0, description="A guess at the minutes of parse and OCR, one after the other.")
    listing_s: int = Field(0, exclude_if=lambda seconds: seconds == 0, description="Seconds that listing the source took.")
    sources: dict[str, list[str]] = Field(description="The sources behind new, changed and gone.")
    captions: dict[str, ExpectedCalls] = Field(
        {}, description="Expected calls of models, by captioner, and as 'vectors text' by space."
    )
    advice: list[str] = Field([], description="What to set, by what the live version shows.")
    forgotten: int = Field(
        0,
        exclude_if=lambda count: count == 0,
        description="PDFs of the source that are left out, since their document was forgotten.",
    )

    @property
    def expected(self) -> Spent:
        """What all models would spend within the budget."""
        parts = (calls.spent.times(calls.affordable / calls.items) for calls in self.captions.values() if calls.items)
        return sum(parts, Spent())

    def in_words(self) -> str:
        """Return it in one line, with what is a guess."""
        spent = self.expected
        about = f" (about {self.pages_estimated:,} of them guessed)" if self.pages_estimated else ""
        guessed = sum(expected.estimated for expected in self.captions.values())
        calls = f", {spent.calls:,} calls of models{' (a guess)' if guessed else ''}, {spent.money:,.2f} money"
        listed = f"; listed in {self.listing_s:,} s" if self.listing_s else ""
        return (
            f"{self.new:,} new, {self.changed:,} changed, {self.gone:,} gone; {self.to_parse:,} documents with "
            f"{self.pages_to_parse:,} pages{about} to parse, about {self.minutes:,.0f} minutes"
            f"{calls if self.captions else ''}{listed}"
        )


class RunOptions(Frozen):
    """Parameters of one refresh."""

    dry_run: bool = Field(False, description="Plan only: show what a refresh would do and cost.")
    replay: bool = Field(False, description="Try the documents in quarantine again.")
    force: bool = Field(False, description="Build a version even if nothing changed.")
    reconvert: bool = Field(
        False,
        description="Convert documents again that another release of a converter made into PDFs, such as LibreOffice's.",
    )
    accept: list[str] = Field(
        [], description="Sources to publish as far as their pages can be read, though an earlier document is kept for them."
    )
    documents: list[str] = Field([], description="With replay: sources of the documents to try again; none: all.")
    money: float | None = Field(None, ge=0, description="The refresh's limit on money, in place of the corpus file's.")


def _unless_of_another_release(corpus: object, validate: ValidatorFunctionWrapHandler) -> object:
    """Return the options of a plan, or None where they have keys that this release doesn't know."""
    try:
        return validate(corpus)
    except ValidationError:
        return None


class Plan(Frozen, extra="ignore"):
    """The work order of a refresh. ``parent`` is the live version, whose ledger the sources were compared with."""

    run_id: str
    version: str
    fingerprint: str
    parent: str | None
    summary: PlanSummary
    documents: Sequence[PlannedDocument] = Field((), description="Kept beside the other facts, as a table.")
    carried: list[LedgerRow] = Field(
        description="In quarantine without being tried: unchanged since the parent's refresh, or not readable now."
    )
    shards: list[list[str]] = Field(description="Document ids to parse, balanced by bytes.")
    again: list[str] = Field(
        [], description="Document ids in quarantine that are tried again, whatever was finished of them before."
    )
    outcome: Outcome = "build"
    options: RunOptions = RunOptions()
    corpus: Annotated[Corpus | None, WrapValidator(_unless_of_another_release)] = Field(
        None, description="The options that the run keeps, however the corpus file is edited."
    )
    corrections: dict[str, list[StoredCorrection]] = Field(
        {}, description="What people corrected, by document: the version is made with it."
    )
    assembled: str = Field("", description="Key of the work, which depends on the files that the corpus file names, too.")


Action = Literal["refresh", "publish", "override", "rollback", "repair", "forget", "start", "replay", "reject", "access"]
"""What moved the live version: ``override`` published a refused version, ``repair`` restored a lost pointer from its copy.

``forget`` deleted documents, and replaced the live version where it held them. The others moved nothing: ``start`` and
``replay`` began a refresh by hand, ``reject`` answered the question of one, and ``access`` changed the rights of documents.
"""


class AuditEvent(Frozen):
    """A move of the live version, or the begin or end of a hold, or a deletion; then both versions are the same."""

    action: Action
    at: datetime
    by: str = Field(description="The person; the operating system's user for a refresh.")
    reason: str | None = None
    run_id: str | None = Field(None, description="The refresh; null for an operator.")
    from_version: str | None = Field(description="Live before; null: none, or unknown.")
    to_version: str = Field(description="Live after; '' if nothing was, when documents were deleted.")
    documents: list[str] = Field([], exclude_if=lambda found: not found, description="Digests of deleted documents.")
    about: str | None = Field(
        None,
        exclude_if=lambda found: found is None,
        description="The rejected version, or the change of rights, if nothing was moved.",
    )

    @property
    def moved(self) -> bool:
        """Whether it moved the live version, or began or ended a hold."""
        if self.action == "forget":
            return bool(self.to_version) and self.to_version != self.from_version
        return self.action not in ("start", "replay", "reject", "access")


FORMAT = 2
"""Format of stores that this release reads and writes. A change that earlier releases can't read raises it, so that they refuse
the store by one line, and don't repair what they take for damage.
"""


class Pointer(Frozen):
    """The one mutable object that readers follow.

    Attributes:
        format: Format of the store; the first, of release 0.2.0 and before, isn't named.
        held: Refreshes build but don't publish.
        moved: Its last move, kept here until the audit log has it: a kill between both writes loses nothing.
        forgotten: When documents were last deleted; readers then let go of what they keep of them.
    """

    format: int = FORMAT
    version: str
    previous: str | None
    since: datetime
    held: bool = False
    fence: int = 0
    moved: AuditEvent | None = None
    forgotten: datetime | None = Field(
        None, validation_alias=AliasChoices("forgotten", "rewritten"), exclude_if=lambda moment: moment is None
    )


class Lease(Frozen):
    """The current refresh of a corpus, "" if there is none, and its expiry; ``format`` as in the pointer.

    ``fence`` grows with each holder, so that a late writer is detected; ``host`` is a host name and an id of its boot.
    """

    format: int = FORMAT
    run_id: str
    fence: int
    until: datetime
    host: str
    pid: int | None = None
    since: datetime | None = Field(None, description="When the run first took it; null: by an earlier release.")


class Counts(Frozen):
    """The contents of a version in numbers."""

    sources: int = 0
    documents: int = 0
    quarantined: int = 0
    partly_read: int = Field(
        0,
        exclude_if=lambda count: count == 0,  # an earlier release doesn't know it
        description="Documents of which pages can't be read, now or in the bytes that replace them.",
    )
    needs_ocr: int = Field(
        0,
        exclude_if=lambda count: count == 0,
        description="Those of them that lack only pages which OCR would read, if it were on.",
    )
    pages: int = 0
    figures: int = 0
    placements: int = 0
    tags: int = 0
    rows: int = 0
    rows_by_modality: dict[str, int] = {}
    documents_by_language: dict[str, int] = Field({}, description="Those whose language is known, the most frequent first.")
    documents_by_type: dict[str, int] = Field({}, description="Those with a type in doc_types, the most frequent first.")

    def totals(self) -> dict[str, int]:
        """Return the plain numbers, by name."""
        return {name: value for name, value in self if isinstance(value, int)}


class ModelCard(Frozen):
    """A model as manifests record it and keys digest it.

    Attributes:
        name: As in the corpus file.
        revision: Of its weights; of a packaged model, of Inset's settings for it too.
        dimension: Length of its vectors; None if it makes none.
        settings_version: Of Inset's use of a configured model: pre- and postprocessing. Left out while it is the first, so
            that earlier paid work keeps its key.
    """

    name: str
    revision: str
    dimension: int | None = None
    settings_version: str = Field(FIRST_VERSION, exclude_if=lambda version: version == FIRST_VERSION)


class VectorSpace(Frozen):
    """A vector space of a version: its model, settings, and the key of its vectors."""

    model: ModelCard
    key: str
    settings: dict[str, str | float] = {}


class Captions(Frozen):
    """A captioner of a version: its model, the key of its descriptions, and their subject."""

    model: ModelCard
    key: str
    subject: Subject = "figure"


class FeatureScale(Frozen):
    """Mean and standard deviation of one kind of evidence; answerable and unanswerable questions weigh equally."""

    mean: float
    scale: float = Field(gt=0)


class Calibration(Frozen):
    """The calibration of a version's confidence in answers (decision 14)."""

    text_model: str = Field(description="The text model whose cosines the evidence has.")
    features: dict[str, FeatureScale] = Field(description="Kinds of evidence that count.")
    abstain_below: float = Field(description="Confidence below which there is no answer.")
    sure_above: float = Field(description="Confidence below which an answer is marked as not sure.")
    answerable: int = Field(description="Golden questions that have an answer.")
    unanswerable: dict[str, int] = Field(description="Questions without an answer, by where they are from.")
    how: str = Field(description="How scales and thresholds were found.")


class Manifest(Frozen, extra="ignore"):
    """The record of a version; written by ``build``, completed by ``evaluate`` and ``publish``."""

    version: str
    corpus: str
    fingerprint: str
    parent: str | None
    created: datetime
    run_id: str
    code_version: str
    keys: dict[str, str]
    models: dict[str, ModelCard]
    spaces: dict[str, VectorSpace] = Field(description="The spaces that its rows have vectors in, by name.")
    captioners: dict[str, Captions] = Field({}, description="The models that describe its figures, pages and texts.")
    spent: dict[str, Spent] = Field({}, description="What its refresh spent on generative models, by captioner.")
    parameters: dict[str, object]
    counts: Counts
    collection: str
    gates: list[GateResult] = []
    calibration: Calibration | None = Field(None, description="null: of before, or without golden questions.")
    timings_s: dict[str, float] = {}
    work: dict[str, int] = Field(
        {}, description="What was done to make it: documents parsed, pictures read, texts embedded."
    )
    sizes: dict[str, int] = Field({}, description="Bytes of its sources and of its rows.")
    ledger: str = Field("", description="SHA-256 of its ledger, which names every input.")
    inventory: str = Field(
        "", description="SHA-256 of its inventory, which lists every object that it needs; '' if none was kept."
    )


UNDONE = {"undescribed": "figures, pages or texts not described"}
"""Work that a budget or a silent model left undone, by its count in ``Manifest.work``."""


class Override(Frozen):
    """An operator's override of a gate: reason, author and time."""

    reason: str
    by: str
    at: datetime
    refusals: list[str]
