"""A contact sheet: what of a version is described, by what words of whom, and at what cost, in one HTML file."""

import base64
import html
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from textwrap import shorten
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backends.models.pictures import fit
from pipeline.corpus.captioners import label
from pipeline.corpus.workspace import Workspace
from pipeline.records.descriptions import match, open_descriptions
from pipeline.records.evidence import evidence_parts
from pipeline.records.publication import read_manifest, read_pointer
from schemas.corpus.captions import CONTEXT
from schemas.corpus.parse import TagOptions
from schemas.errors import BadInputError, DamagedError, NotFoundError, UserError
from schemas.evidence import Modality
from schemas.flags import REFUSING
from schemas.generation import Description, Subject
from schemas.ids import figure_file
from schemas.inspection import CaptionSheet
from schemas.parquet import rows_of
from schemas.progress import Report, silent
from schemas.tags import TagTemplate, restore
from schemas.versions import Manifest, Spent
from tasks.enriching.caption import described_of
from tasks.enriching.corrections import Correction
from tasks.enriching.spending import spent_on

SHEET_CARDS = 10_000
"""Figures, pages and texts on one sheet at most, flagged ones first: a browser opens as many in some seconds."""

EMBED_BYTES = 50_000_000
"""Bytes of thumbnails that a sheet holds, some 6,000; behind those, pictures are links."""

_THUMBNAIL_PX = 320
_THUMBNAIL_QUALITY = 60
_BEGINNING = 400
"""Characters that are shown of a text."""

ShowPicture = Callable[[str], str | None]
"""Returns the address of a figure's picture, for an ``img``; None where there is none."""


@dataclass(slots=True)
class Card:
    """A figure, page or text of the sheet: where it stands first, what describes it, and what a model wrote of it, used or not.

    ``id`` is that of the picture, or of the text, which ``caption`` begins then; ``described_by`` is as captioners are called,
    such as ``vlm (pages)``.
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

    @property
    def is_refused(self) -> bool:
        """Whether a model's answer isn't used."""
        return not REFUSING.isdisjoint(self.flags)


@dataclass
class SheetFacts:
    """What the figures, described pages and described texts of a version come to, those included that the sheet has no room for.

    ``counts`` are by subject, each counted once for each way that it is described. ``spent`` is what their descriptions cost when
    they were made, ``refresh`` what the version's refresh spent, both by captioner. ``unmatched`` are corrections that are of
    nothing in the version.
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


def write_captions(workspace: Workspace, out: Path, *, flagged: bool = False, report: Report = silent) -> CaptionSheet:
    """Write the sheet of the live version.

    Args:
        workspace: The corpus.
        out: The HTML file.
        flagged: Show only what has a flag.
        report: Called with the cards drawn.

    Raises:
        NotFoundError: Nothing is published yet.
        UserError: The file can't be written.
    """
    name = workspace.corpus.name
    pointer = read_pointer(workspace.store)
    manifest = read_manifest(workspace.store, pointer.version) if pointer else None
    if manifest is None:
        raise NotFoundError(f"corpus {name}: nothing is published yet; run: inset refresh {name}")
    facts, cards = _look_up(workspace, manifest, flagged=flagged)
    pictures = _Pictures(workspace)

    def show(figure_id: str) -> str | None:
        report("draw", pictures.shown + 1, len(cards))
        return pictures.address(figure_id)

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", encoding="utf-8") as file:
            file.writelines(caption_sheet(name, facts, cards, show, flagged=flagged))
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
    )


def _look_up(workspace: Workspace, manifest: Manifest, *, flagged: bool) -> tuple[SheetFacts, list[Card]]:
    """Return what all of a version comes to, and what of it to show, by source and page."""
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
    """As many cards as a sheet has room for, the first that come."""

    def __init__(self) -> None:
        self.cards: list[Card] = []

    def take(self, card: Card) -> bool:
        if len(self.cards) >= SHEET_CARDS:
            return False
        self.cards.append(card)
        return True


def _is_by(card: Card, captioner: str, subject: Subject) -> bool:
    """Return whether a captioner's answer may be what describes a figure, page or text, or what was refused for it."""
    if card.subject != subject:
        return False
    return card.described_by == captioner or (card.described_by == label(CONTEXT, subject) and card.is_refused)


def _rows(part: pa.Table, *, every: bool) -> list[dict[str, Any]]:
    """Return rows that may have a place on the sheet, or all."""
    is_figure = pc.equal(part.column("modality"), pa.scalar(str(Modality.FIGURE)))
    wanted = part if every else part.filter(pc.or_(is_figure, pc.is_valid(part.column("described_by"))))
    found: list[dict[str, Any]] = wanted.select(_COLUMNS).to_pylist()
    return found


def _is_shown(card: Card, row: Mapping[str, Any]) -> bool:
    """Return whether a row has a place on the sheet: every figure, and those pages and texts that anybody was to describe."""
    return card.subject == "figure" or (row["described_by"] or CONTEXT) != CONTEXT or bool(card.flags)


_COLUMNS = [
    *("modality", "figure_id", "text", "tagged_text", "sources", "page", "section_path", "caption"),
    *("description", "described_by", "flags"),
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
    )


class _Pictures:
    """Thumbnails as data addresses, as many as a sheet holds; then links, where the store is a folder."""

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
    corpus: str, facts: SheetFacts, cards: Sequence[Card], show: ShowPicture, *, flagged: bool
) -> Iterator[str]:
    """Yield the HTML of a contact sheet, a card at a time. Pure, but for what ``show`` does.

    Args:
        corpus: Its name.
        facts: What all of the version comes to.
        cards: Those on the sheet, in order.
        show: Gives a picture by its id.
        flagged: Whether what has no flag was left out on purpose.
    """
    here = files("pipeline.inspection")
    style, script = (here.joinpath(name).read_text(encoding="utf-8") for name in ("captions.css", "captions.js"))
    title = html.escape(f"{corpus}: figures and their captions")
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>\n{style}</style></head>\n<body>\n'
        f"<header><h1>{title}</h1>\n<p>{html.escape(_sentence(facts, len(cards), flagged=flagged))}</p>\n"
    )
    yield from _summary(facts)
    yield from _filters(cards)
    yield "</header>\n<main>\n"
    for card in cards:
        yield from _shown(card, facts, None if card.subject == "text" else show(card.id))
    yield f"</main>\n<script>\n{script}</script>\n</body></html>\n"


def _sentence(facts: SheetFacts, shown: int, *, flagged: bool) -> str:
    counts = [f"{count:,} {subject}s" for subject, count in sorted(facts.counts.items())] or ["0 figures"]
    all_of_them = f"Version {facts.version}: {', '.join(counts)}, {facts.flagged:,} of them flagged."
    wanted = facts.flagged if flagged else facts.counts.total()
    if shown < wanted:
        return f"{all_of_them} Here are {shown:,}, flagged ones first."
    return f"{all_of_them} Here are the flagged ones." if flagged else all_of_them


def _summary(facts: SheetFacts) -> Iterator[str]:
    head = ("described by", "model", "described", "calls", "tokens read", "tokens written", "cost", "spent by this refresh")
    yield "<table><thead><tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr></thead><tbody>\n"
    for name in sorted(
        {*facts.described_by, *facts.models, *facts.refresh}, key=lambda name: (-facts.described_by[name], name)
    ):
        spent, refresh = facts.spent.get(name), facts.refresh.get(name)
        cells = [facts.models.get(name, ""), f"{facts.described_by[name]:,}"]
        cells += [*_cost(spent)] if spent and spent.calls else [""] * 4
        cells.append(f"{refresh.calls:,} calls, {_money(refresh.money)}" if refresh else "")
        yield f"<tr><th>{html.escape(name)}</th>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>\n"
    yield "</tbody></table>\n"


def _cost(spent: Spent) -> tuple[str, str, str, str]:
    return f"{spent.calls:,}", f"{spent.input_tokens:,}", f"{spent.output_tokens:,}", _money(spent.money)


def _money(money: float) -> str:
    return f"{money:,.4f}" if 0 < money < 1 else f"{money:,.2f}"


def _filters(cards: Sequence[Card]) -> Iterator[str]:
    """Yield buttons that narrow the sheet, by what describes a figure and by its flags."""
    by = Counter(card.described_by for card in cards)
    flags = Counter(flag for card in cards for flag in card.flags)
    yield '<nav aria-label="Show only">\n'
    for kind, counts in (("by", by), ("flag", flags)):
        for name, count in counts.most_common():
            known = html.escape(name)
            css = f' class="{_weight(name)}"' if kind == "flag" else ""
            yield (
                f'<button type="button" data-{kind}="{known}" aria-pressed="false"{css}>{_in_words(known)} '
                f"<b>{count:,}</b></button>\n"
            )
    yield "<output hidden></output></nav>\n"


def _shown(card: Card, facts: SheetFacts, picture: str | None) -> Iterator[str]:
    flags = " ".join(card.flags)
    more = f", and {card.places - 1} more places" if card.places > 1 else ""
    yield f'<article data-by="{html.escape(card.described_by)}" data-flags="{html.escape(flags)}">\n<figure>'
    if picture:
        yield f'<img src="{html.escape(picture)}" alt="" loading="lazy" decoding="async">'
    else:
        yield f"<p>{'text' if card.subject == 'text' else 'no picture here'}</p>"
    yield "</figure>\n<div>"
    place = f"{card.source}, page {card.page}{more}"
    yield f'<h2>{html.escape(place)}</h2><p class="section" dir="auto">{_words(card.section)}</p>\n'
    yield from (f'<span class="flag {_weight(flag)}">{_in_words(html.escape(flag))}</span>' for flag in card.flags)
    yield f'<p class="caption" dir="auto">{_words(card.caption)}</p>\n' if card.caption else ""
    if card.description:
        yield f'<p class="description" dir="auto">{_words(card.description)}</p>\n'
    elif card.made is not None and card.made.text.strip():
        yield f'<p class="refused" dir="auto">{_words(" ".join(card.made.text.split()))}</p>\n'
    elif card.made is not None and card.made.failure:
        yield f'<p class="refused">{_words(card.made.failure)}</p>\n'
    yield f'<p class="facts">{html.escape(" · ".join(_facts(card, facts)))}</p>\n'
    number = f"tag <code>{html.escape(card.tag)}</code> " if card.tag else ""
    yield f'<p class="names">{number}id <code>{card.id}</code></p></div></article>\n'


def _facts(card: Card, facts: SheetFacts) -> Iterable[str]:
    instead = f" instead of {card.model}" if card.model not in ("", card.described_by) else ""
    yield f"by {card.described_by}{instead}"
    if card.made is not None:
        yield card.made.model or facts.models.get(card.model, "")
        calls = f"{card.made.calls} calls, " if card.made.calls != 1 else ""
        yield f"{calls}{card.made.input_tokens:,} + {card.made.output_tokens:,} tokens"
        if card.made.money:
            yield _money(card.made.money)


def _weight(flag: str) -> str:
    return "refuses" if flag in REFUSING else "marks"


def _in_words(flag: str) -> str:
    return flag.replace("_", " ")


def _words(text: str) -> str:
    return html.escape(restore(text))
