"""The caption sheet of a version: descriptions, their authors, flags and costs in one HTML file."""

import base64
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from backends.models.pictures import fit
from pipeline.corpus.captioners import label
from pipeline.corpus.workspace import Workspace
from pipeline.inspection.render import render
from pipeline.published.version import open_version
from pipeline.records.descriptions import match, open_descriptions
from pipeline.records.evidence import evidence_parts
from pipeline.records.publication import named_manifest
from pipeline.records.version_names import resolve_version
from schemas.corpus.captions import CONTEXT
from schemas.corpus.parse import TagOptions
from schemas.errors import BadInputError, DamagedError, UserError
from schemas.evidence import Modality
from schemas.flags import REFUSING
from schemas.generation import Description, Subject
from schemas.ids import figure_file
from schemas.inspection import CaptionPair, CaptionSheet
from schemas.models import DEFAULT_SPACE
from schemas.parquet import rows_of
from schemas.progress import Report, silent
from schemas.tags import TagTemplate, restore
from schemas.versions import Manifest, Spent
from tasks.enriching.caption import described_of
from tasks.enriching.corrections import Correction
from tasks.enriching.spending import spent_on

if TYPE_CHECKING:
    from schemas.ports import TextEmbedder

SHEET_CARDS = 10_000
"""Maximum cards on a sheet, flagged ones first: a browser opens as many in some seconds."""

EMBED_BYTES = 50_000_000
"""Bytes of embedded thumbnails, about 6,000; further pictures are links."""

_THUMBNAIL_PX = 320
_THUMBNAIL_QUALITY = 60
_BEGINNING = 400
"""Characters shown of a text."""

ShowPicture = Callable[[str], str | None]
"""Returns the address of a figure's picture, for an ``img``; None where there is none."""


@dataclass(slots=True)
class Card:
    """A figure, page or text on the sheet.

    Attributes:
        id: Of the picture, or of the text.
        subject: Figure, page or text.
        tag: Tag number of a figure.
        source: Where it occurs first.
        page: Where it occurs first.
        section: Where it occurs first.
        caption: Of a figure; the beginning of a text.
        description: The description in use.
        described_by: Label of the captioner, such as ``vlm (pages)``.
        flags: Doubts about the description.
        places: Occurrences.
        model: Captioner that wrote ``made``.
        made: What a model wrote, in use or not.
        doc_type: Of the document.
        pair: The comparison of caption and description.
    """

    id: str
    subject: Subject
    tag: str
    source: str
    page: int
    section: str
    caption: str
    description: str
    described_by: str
    flags: tuple[str, ...]
    places: int = 1
    model: str = ""
    made: Description | None = None
    doc_type: str | None = None
    pair: CaptionPair | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the model's answer is not in use."""
        return not REFUSING.isdisjoint(self.flags)

    @property
    def has_both(self) -> bool:
        """Whether a figure has a caption in the document, and a model's description."""
        return self.subject == "figure" and bool(self.caption and self.description and self.model and not self.is_refused)


@dataclass
class SheetFacts:
    """Totals of a version, cards beyond ``SHEET_CARDS`` included.

    Attributes:
        version: The version.
        counts: Figures, pages and texts.
        described_by: Descriptions by captioner.
        flags: Flags.
        flagged: Descriptions with a flag.
        models: Model by captioner.
        spent: Cost of the descriptions by captioner.
        refresh: Cost of the version's refresh by captioner.
        unmatched: Corrections that match nothing in the version.
    """

    version: str
    counts: Counter[Subject] = field(default_factory=Counter)
    described_by: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    flagged: int = 0
    models: dict[str, str] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)
    refresh: Mapping[str, Spent] = field(default_factory=dict)
    unmatched: tuple[Correction, ...] = ()


def write_captions(
    workspace: Workspace, out: Path, *, flagged: bool = False, compare: bool = False, report: Report = silent
) -> CaptionSheet:
    """Write the sheet of the live version.

    Args:
        workspace: The corpus.
        out: The HTML file.
        flagged: Show only flagged descriptions.
        compare: Show only figures that have a caption and a model's description, least alike first.
        report: Called with the cards drawn.

    Raises:
        NotFoundError: Nothing is published yet.
        UserError: The file can't be written.
    """
    live = resolve_version(workspace.store, workspace.corpus.name, "live")
    manifest = named_manifest(workspace.store, workspace.corpus.name, live)
    facts, cards = _look_up(workspace, manifest, flagged=flagged)
    if compare:
        cards = _compared(workspace, live, [card for card in cards if card.has_both])
    pictures = _Pictures(workspace)

    def show(figure_id: str) -> str | None:
        report("draw", pictures.shown + 1, len(cards))
        return pictures.address(figure_id)

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", encoding="utf-8") as file:
            file.writelines(caption_sheet(workspace.corpus.name, facts, cards, show, flagged=flagged, compare=compare))
    except OSError as error:
        raise UserError(f"can't write {out}: {error.strerror or error}") from error
    return CaptionSheet(
        version=manifest.version,
        file=str(out),
        figures=facts.counts["figure"],
        pages=facts.counts["page"],
        texts=facts.counts["text"],
        shown=len(cards),
        flagged=facts.flagged,
        described_by=dict(facts.described_by),
        flags=dict(facts.flags),
        spent=facts.spent,
        unmatched=[f"line {entry.line}: {entry.figure}" for entry in facts.unmatched],
        compared=[card.pair for card in cards if card.pair],
    )


def _compared(workspace: Workspace, version: str, cards: Sequence[Card]) -> list[Card]:
    """Return cards with their comparisons, least alike first; texts are compared by the corpus's embedder.

    Source:
        Bag et al., "RAG Beyond Text", Table I, shows such pairs to readers.
    """
    if not cards:
        return []
    embedder = cast("TextEmbedder", open_version(workspace, version).embedders[DEFAULT_SPACE])
    texts = [(restore(card.caption), restore(card.description)) for card in cards]
    captions, descriptions = (embedder.embed_documents(each) for each in zip(*texts, strict=True))
    similarities = (captions * descriptions).sum(axis=1).tolist()
    found = []
    for card, (caption, description), similarity in zip(cards, texts, similarities, strict=True):
        words = _words(caption)
        card.pair = CaptionPair(
            figure_id=card.id,
            source=card.source,
            page=card.page,
            doc_type=card.doc_type,
            caption=caption,
            description=description,
            described_by=card.described_by,
            similarity=similarity,
            words=len(words & _words(description)) / len(words) if words else 0.0,
        )
        found.append((similarity, card))
    return [card for _, card in sorted(found, key=lambda pair: pair[0])]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _look_up(workspace: Workspace, manifest: Manifest, *, flagged: bool) -> tuple[SheetFacts, list[Card]]:
    """Return the totals of a version, and the cards to show, by source and page."""
    store = workspace.store
    facts = SheetFacts(manifest.version, refresh=manifest.spent)
    facts.models = {name: f"{used.model.name} {used.model.revision}" for name, used in manifest.captioners.items()}
    caches = {name: open_descriptions(store, used.key) for name, used in manifest.captioners.items()}
    template = TagTemplate(TagOptions.model_validate(manifest.parameters.get("tags", {})).template)
    shown: dict[tuple[str, str], Card] = {}
    first, rest = _Room(), _Room()
    seen: set[tuple[bytes, str]] = set()
    numbers: dict[str, int | None] = {}
    for part in evidence_parts(store, manifest.version):
        new: list[Card] = []
        for row in _rows(part, every=bool(workspace.corrections.entries)):
            card = _card(row, template)
            if workspace.corrections.entries:
                numbers.setdefault(card.id, int(card.tag) if card.tag else None)
            if not _is_shown(card, row):
                continue
            if (known := shown.get((card.id, card.described_by))) is not None:
                known.places += 1
            if (mark := (bytes.fromhex(card.id), card.described_by)) not in seen:
                seen.add(mark)
                new.append(card)
        for name, cache in caches.items():
            ours = [card for card in new if _is_by(card, name, manifest.captioners[name].subject)]
            made = {one.id: one for one in rows_of(Description, cache.read([card.id for card in ours]))}
            ours = [card for card in ours if card.id in made]
            facts.spent[name] = facts.spent.get(name, Spent()) + spent_on([made[card.id] for card in ours])
            for card in ours:
                card.made, card.model = made[card.id], name
        for card in new:
            facts.counts[card.subject] += 1
            facts.described_by[card.described_by] += 1
            facts.flags.update(card.flags)
            facts.flagged += bool(card.flags)
            if card.flags or not flagged:
                room = first if card.flags else rest
                if room.take(card):
                    shown[card.id, card.described_by] = card
    facts.unmatched = match(workspace, numbers.items()).unmatched
    cards = [*first.cards, *rest.cards[: SHEET_CARDS - len(first.cards)]]
    return facts, sorted(cards, key=lambda card: (card.source, card.page, card.subject, card.id))


class _Room:
    """The first ``SHEET_CARDS`` cards."""

    def __init__(self) -> None:
        self.cards: list[Card] = []

    def take(self, card: Card) -> bool:
        if len(self.cards) >= SHEET_CARDS:
            return False
        self.cards.append(card)
        return True


def _is_by(card: Card, captioner: str, subject: Subject) -> bool:
    """Return whether a captioner's answer may describe a card, or was refused for it."""
    if card.subject != subject:
        return False
    return card.described_by == captioner or (card.described_by == label(CONTEXT, subject) and card.is_refused)


def _rows(part: pa.Table, *, every: bool) -> list[dict[str, Any]]:
    """Return rows that may be on the sheet, or all rows."""
    is_figure = pc.equal(part.column("modality"), pa.scalar(str(Modality.FIGURE)))
    wanted = part if every else part.filter(pc.or_(is_figure, pc.is_valid(part.column("described_by"))))
    found: list[dict[str, Any]] = wanted.select(_COLUMNS).to_pylist()
    return found


def _is_shown(card: Card, row: Mapping[str, Any]) -> bool:
    """Return whether a row is on the sheet: figures, and pages and texts that have a captioner."""
    return card.subject == "figure" or (row["described_by"] or CONTEXT) != CONTEXT or bool(card.flags)


_COLUMNS = [
    *("modality", "figure_id", "text", "tagged_text", "sources", "page", "section_path", "caption"),
    *("description", "described_by", "flags", "doc_type"),
]


def _card(row: Mapping[str, Any], template: TagTemplate) -> Card:
    subject, name = described_of(row["modality"], row["figure_id"], row["text"])
    tags = template.split(row["tagged_text"]) if subject == "figure" else ()
    return Card(
        id=name,
        subject=subject,
        tag=next((found for _, number in tags if (found := number)), ""),
        source=row["sources"][0],
        page=row["page"],
        section=" › ".join(row["section_path"]),
        caption=shorten(row["text"], _BEGINNING, placeholder=" …") if subject == "text" else row["caption"],
        description=row["description"] or "",
        described_by=label(row["described_by"] or CONTEXT, subject),
        flags=tuple(row["flags"] or ()),
        doc_type=row["doc_type"],
    )


class _Pictures:
    """Thumbnails as data URLs up to ``EMBED_BYTES``; then links, where the store is a folder."""

    def __init__(self, workspace: Workspace) -> None:
        self._store = workspace.store
        self._left = EMBED_BYTES
        self.shown = 0

    def address(self, figure_id: str) -> str | None:
        self.shown += 1
        if self._left <= 0:
            return self._link(figure_id)
        try:
            image = fit(self._store.get(figure_file(figure_id)), _THUMBNAIL_PX)
        except (BadInputError, DamagedError):
            return None
        written = io.BytesIO()
        image.save(written, "WEBP", quality=_THUMBNAIL_QUALITY)
        self._left -= written.tell()
        return f"data:image/webp;base64,{base64.b64encode(written.getvalue()).decode()}"

    def _link(self, figure_id: str) -> str | None:
        folder = Path(self._store.root)
        return (folder / figure_file(figure_id)).as_uri() if folder.is_absolute() else None


def caption_sheet(
    corpus: str, facts: SheetFacts, cards: Sequence[Card], show: ShowPicture, *, flagged: bool, compare: bool = False
) -> Iterator[str]:
    """Yield the HTML of a sheet in pieces.

    Args:
        corpus: The corpus's name.
        facts: Totals of the version.
        cards: The cards, in order.
        show: Returns the URL of a picture by its id.
        flagged: Whether only flagged cards are shown.
        compare: Whether the cards are figures with a caption and a model's description.
    """
    names = {*facts.described_by, *facts.models, *facts.refresh}
    yield from render(
        "captions.html",
        title=f"{corpus}: figures and their captions",
        sentence=_sentence(facts, len(cards), flagged=flagged, compare=compare),
        facts=facts,
        captioners=sorted(names, key=lambda name: (-facts.described_by[name], name)),
        by=Counter(card.described_by for card in cards),
        flags=Counter(flag for card in cards for flag in card.flags),
        cards=cards,
        show=show,
    )


def _sentence(facts: SheetFacts, shown: int, *, flagged: bool, compare: bool) -> str:
    counts = [f"{count:,} {subject}s" for subject, count in sorted(facts.counts.items())] or ["0 figures"]
    all_of_them = f"Version {facts.version}: {', '.join(counts)}, {facts.flagged:,} of them flagged."
    if compare:
        return (
            f"{all_of_them} Here are {shown:,} with a caption in the document and a model's description, least alike first."
        )
    wanted = facts.flagged if flagged else facts.counts.total()
    if shown < wanted:
        return f"{all_of_them} Here are {shown:,}, flagged ones first."
    return f"{all_of_them} Here are the flagged ones." if flagged else all_of_them
