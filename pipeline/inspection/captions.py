"""A contact sheet: the figures of a version with what describes them, by what, and at what cost, in one HTML file."""

import base64
import html
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backends.models.pictures import fit
from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.descriptions import open_descriptions
from pipeline.records.evidence import evidence_parts
from pipeline.records.publication import read_manifest, read_pointer
from schemas.corpus import CONTEXT, TagOptions
from schemas.errors import BadInputError, DamagedError, NotFoundError, UserError
from schemas.evidence import Modality
from schemas.flags import REFUSING
from schemas.generation import Description
from schemas.ids import figure_file
from schemas.inspection import CaptionSheet
from schemas.parquet import rows_of
from schemas.tags import TagTemplate, restore
from schemas.versions import Manifest, Spent
from tasks.enriching.spending import spent_on

SHEET_FIGURES = 10_000
"""Figures on one sheet at most, flagged ones first: a browser opens as many in some seconds."""

EMBED_BYTES = 50_000_000
"""Bytes of thumbnails that a sheet holds, some 6,000; behind those, pictures are links."""

_THUMBNAIL_PX = 320
_THUMBNAIL_QUALITY = 60

ShowPicture = Callable[[str], str | None]
"""Returns the address of a figure's picture, for an ``img``; None where there is none."""


@dataclass(slots=True)
class Card:
    """A figure of the sheet: where it stands first, what describes it, and what a model wrote of it, used or not."""

    figure_id: str
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
    """What the figures of a version come to, those included that the sheet has no room for.

    ``spent`` is what the descriptions of these figures cost when they were made, ``refresh`` what the version's refresh spent,
    both by captioner.
    """

    version: str
    described_by: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    flagged: int = 0
    models: dict[str, str] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)
    refresh: Mapping[str, Spent] = field(default_factory=dict)

    @property
    def figures(self) -> int:
        """Figures, each counted once for each way that it is described."""
        return self.described_by.total()


def write_captions(workspace: Workspace, out: Path, *, flagged: bool = False, report: Report = silent) -> CaptionSheet:
    """Write the sheet of the live version.

    Args:
        workspace: The corpus.
        out: The HTML file.
        flagged: Show those figures only that have a flag.
        report: Called with the figures drawn.

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
        figures=facts.figures,
        shown=len(cards),
        flagged=facts.flagged,
        described_by=dict(facts.described_by),
        flags=dict(facts.flags),
        spent=facts.spent,
    )


def _look_up(workspace: Workspace, manifest: Manifest, *, flagged: bool) -> tuple[SheetFacts, list[Card]]:
    """Return what all figures of a version come to, and those to show, by source and page."""
    store = workspace.store
    facts = SheetFacts(manifest.version, refresh=manifest.spent)
    facts.models = {name: f"{used.model.name} {used.model.revision}" for name, used in manifest.captioners.items()}
    caches = {name: open_descriptions(store, used.key) for name, used in manifest.captioners.items()}
    template = TagTemplate(TagOptions.model_validate(manifest.parameters.get("tags", {})).template)
    shown: dict[tuple[str, str], Card] = {}
    first, rest = _Room(), _Room()
    seen: set[tuple[bytes, str]] = set()
    for part in evidence_parts(store, manifest.version):
        rows = part.filter(pc.equal(part.column("modality"), pa.scalar(str(Modality.FIGURE)))).to_pylist()
        new: list[Card] = []
        for row in rows:
            card = _card(row, template)
            if (known := shown.get((card.figure_id, card.described_by))) is not None:
                known.places += 1
            if (mark := (bytes.fromhex(card.figure_id), card.described_by)) not in seen:
                seen.add(mark)
                new.append(card)
        for name, cache in caches.items():
            made = {one.id: one for one in rows_of(Description, cache.read([card.figure_id for card in new]))}
            ours = [card for card in new if card.figure_id in made and _is_by(card, name)]
            facts.spent[name] = facts.spent.get(name, Spent()) + spent_on([made[card.figure_id] for card in ours])
            for card in ours:
                card.made, card.model = made[card.figure_id], name
        for card in new:
            facts.described_by[card.described_by] += 1
            facts.flags.update(card.flags)
            facts.flagged += bool(card.flags)
            if card.flags or not flagged:
                room = first if card.flags else rest
                if room.take(card):
                    shown[card.figure_id, card.described_by] = card
    cards = [*first.cards, *rest.cards[: SHEET_FIGURES - len(first.cards)]]
    return facts, sorted(cards, key=lambda card: (card.source, card.page, card.figure_id))


class _Room:
    """As many cards as a sheet has room for, the first that come."""

    def __init__(self) -> None:
        self.cards: list[Card] = []

    def take(self, card: Card) -> bool:
        if len(self.cards) >= SHEET_FIGURES:
            return False
        self.cards.append(card)
        return True


def _is_by(card: Card, captioner: str) -> bool:
    """Return whether a captioner's answer is what describes a figure, or what was refused for it."""
    return card.described_by == captioner or (card.described_by == CONTEXT and card.is_refused)


def _card(row: Mapping[str, Any], template: TagTemplate) -> Card:
    return Card(
        figure_id=row["figure_id"],
        tag=next((found for _, number in template.split(row["tagged_text"]) if (found := number)), ""),
        source=row["sources"][0],
        page=row["page"],
        section=" › ".join(row["section_path"]),
        caption=row["caption"],
        description=row["description"] or "",
        described_by=row["described_by"] or CONTEXT,
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
    """Yield the HTML of a contact sheet, a figure at a time. Pure, but for what ``show`` does.

    Args:
        corpus: Its name.
        facts: What all figures of the version come to.
        cards: Those on the sheet, in order.
        show: Gives a figure's picture.
        flagged: Whether figures without a flag were left out on purpose.
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
        yield from _shown(card, facts, show(card.figure_id))
    yield f"</main>\n<script>\n{script}</script>\n</body></html>\n"


def _sentence(facts: SheetFacts, shown: int, *, flagged: bool) -> str:
    all_of_them = f"Version {facts.version}: {facts.figures:,} figures, {facts.flagged:,} of them flagged."
    wanted = facts.flagged if flagged else facts.figures
    if shown < wanted:
        return f"{all_of_them} Here are {shown:,}, flagged ones first."
    return f"{all_of_them} Here are the flagged ones." if flagged else all_of_them


def _summary(facts: SheetFacts) -> Iterator[str]:
    head = ("described by", "model", "figures", "calls", "tokens read", "tokens written", "cost", "spent by this refresh")
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
    yield (
        f'<article data-by="{html.escape(card.described_by)}" data-flags="{html.escape(flags)}">\n<figure>'
        + (
            f'<img src="{html.escape(picture)}" alt="" loading="lazy" decoding="async">'
            if picture
            else "<p>no picture here</p>"
        )
        + "</figure>\n<div>"
    )
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
    yield f'<p class="names">{number}id <code>{card.figure_id}</code></p></div></article>\n'


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
