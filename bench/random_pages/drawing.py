"""A document that is drawn at random: text in columns, and the questions that its reader must answer."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pymupdf

WIDTH, HEIGHT = 595.0, 842.0
FAMILIES = (("helv", "hebo", "heit"), ("tiro", "tibo", "tiit"))
MONO, DINGBATS = "cour", "zadb"
LEADING = 1.25
_PARTS = [
    "bearing",
    "gasket",
    "impeller",
    "coupling",
    "manifold",
    "solenoid",
    "spindle",
    "piston",
    "rotor",
    "flange",
    "bushing",
    "sprocket",
    "hopper",
    "nozzle",
    "pulley",
]
_KINDS = [
    "worn",
    "clean",
    "upper",
    "lower",
    "inner",
    "outer",
    "front",
    "rear",
    "spare",
    "main",
    "insulated",
    "damaged",
    "flexible",
    "galvanised",
    "dry",
]
_VERBS = [
    "holds",
    "drives",
    "cools",
    "supports",
    "seals",
    "guides",
    "limits",
    "balances",
    "protects",
    "monitors",
    "separates",
    "measures",
]
_TASKS = [
    "Loosen",
    "Remove",
    "Clean",
    "Grease",
    "Inspect",
    "Replace",
    "Tighten",
    "Align",
    "Drain",
    "Calibrate",
    "Lift",
    "Adjust",
]
_TOPICS = [
    "Safety",
    "Storage",
    "Transport",
    "Assembly",
    "Operation",
    "Lubrication",
    "Disposal",
    "Wiring",
    "Cleaning",
    "Testing",
    "Cooling",
    "Repair",
]
_PLACES = [
    "mixer",
    "lathe",
    "hoist",
    "press",
    "boiler",
    "crane",
    "saw",
    "kiln",
    "furnace",
    "lift",
    "tank",
    "chiller",
    "welder",
    "sorter",
]


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing drawn: a text with its baseline at ``y``; a rule, a frame, a box, a picture from ``(x, y)`` to ``(x1, y1)``."""

    kind: str
    x: float
    y: float
    x1: float = 0.0
    y1: float = 0.0
    text: str = ""
    font: str = ""
    size: float = 0.0
    colour: tuple[float, float, float] = (0.0, 0.0, 0.0)
    mode: int = 0
    degrees: float = 0.0


@dataclass(frozen=True, slots=True)
class Question:
    """What a reader must find. ``ask`` names a method of the check, ``kind`` what was drawn."""

    kind: str
    ask: str
    page: int
    text: str
    value: str = ""


@cache
def _font(name: str) -> "pymupdf.Font":
    import pymupdf

    return pymupdf.Font(name)


def width_of(text: str, font: str, size: float) -> float:
    """Return the width of a text in points."""
    return float(_font(font).text_length(text, size))


@dataclass
class Drawing:
    """The pages drawn so far. ``x0`` and ``x1`` are the sides of the column, ``y`` is where its next line begins."""

    pick: random.Random
    pages: list[list[Operation]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    kind: str = ""
    quirk: str = ""
    seen: set[str] = field(default_factory=set)
    attached: list[str] = field(default_factory=list)
    struck: list[tuple[int, tuple[float, float, float, float]]] = field(default_factory=list)
    turned: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose a style, and begin the first page."""
        self.regular, self.bold, self.italic = self.pick.choice(FAMILIES)
        self.size = self.pick.choice((9.0, 10.0, 10.5, 11.0))
        self.margin = self.pick.uniform(55, 80)
        self.title = self.name()
        self.new_page()

    def new_page(self) -> None:
        """Begin a page of one column."""
        self.pages.append([])
        self.x0, self.x1, self.y = self.margin, WIDTH - self.margin, 70.0

    def turned_page(self, rotation: int) -> None:
        """Begin a page whose contents run upwards; ``rotation`` 90 shows them upright, 0 as they are."""
        self.pages.append([])
        self.turned[len(self.pages)] = rotation
        self.x0, self.x1, self.y = self.margin, HEIGHT - self.margin, 70.0

    def room(self, height: float) -> None:
        """Begin a page where less than a height is left."""
        if self.y + height > HEIGHT - 75:
            self.new_page()

    def once(self, *words: Sequence[str] | str) -> str:
        """Return words, of each list one, that the document doesn't have yet."""
        while True:
            text = "".join(part if isinstance(part, str) else self.pick.choice(part) for part in words)
            if text not in self.seen:
                self.seen.add(text)
                return text

    def thing(self) -> str:
        """Return a part that is named once."""
        return self.once(_KINDS, " ", _PARTS, " of the ", _PLACES)

    def name(self) -> str:
        """Return a title."""
        return self.once(_TOPICS, " of the ", _KINDS, " ", _PARTS)

    def code(self) -> str:
        """Return an order code."""
        return self.once(list("ABCDEFGH"), list("KLMNPRST"), f"-{self.pick.randint(1000, 9899)}")

    def sentence(self) -> str:
        """Return a sentence of some twenty words."""
        amount = self.pick.choice(("bar", "Nm", "mm", "kW"))
        value = f"{self.pick.randint(2, 980)} {amount}"
        subject, verb = self.thing(), self.pick.choice(_VERBS)
        return f"The {subject} {verb} the {self.thing()} with up to {value} as long as the {self.thing()} is locked."

    def step(self) -> str:
        """Return an instruction."""
        return f"{self.pick.choice(_TASKS)} the {self.thing()} by hand."

    def ask(self, ask: str, text: str, value: str = "", page: int = 0) -> None:
        """Add a question about the last page, or another."""
        self.questions.append(Question(self.kind, ask, page or len(self.pages), text, value))

    def put(self, x: float, y: float, text: str, font: str = "", size: float = 0.0, **more: Any) -> float:
        """Draw a text; return where it ends."""
        font, size = font or self.regular, size or self.size
        self.pages[-1].append(replace(Operation("text", x, y, text=text, font=font, size=size), **more))
        return x + width_of(text, font, size)

    def shape(self, kind: str, x: float, y: float, x1: float, y1: float, **more: Any) -> None:
        """Draw a rule, a box, or a picture."""
        self.pages[-1].append(replace(Operation(kind, x, y, x1, y1), **more))

    def lines(self, text: str, font: str, size: float, measure: float) -> list[str]:
        """Return a text cut to lines."""
        lines = [""]
        for word in text.split():
            longer = f"{lines[-1]} {word}".strip()
            if width_of(longer, font, size) > measure and lines[-1]:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines

    def flow(self, text: str, font: str = "", size: float = 0.0, hang: float = 0.0) -> None:
        """Set a text line by line; the column goes on below it."""
        font, size = font or self.regular, size or self.size
        lines = self.lines(text, font, size, self.x1 - self.x0 - hang)
        self.room(len(lines) * size * LEADING)
        for line in lines:
            self.put(self.x0 + hang, self.y + size, line, font, size)
            self.y += size * LEADING

    def paragraph(self, text: str = "", font: str = "") -> str:
        """Draw a paragraph, and ask for it."""
        text = text or f"{self.sentence()} {self.sentence()}"
        self.flow(text, font)
        self.y += 0.8 * self.size
        self.ask("whole", text)
        return text

    def heading(self, text: str = "", size: float = 1.4) -> str:
        """Draw a heading, and ask for it."""
        text = text or self.name()
        self.room(8 * self.size)
        self.y += 0.7 * self.size
        self.flow(text, self.bold, size * self.size)
        self.y += 0.5 * self.size
        self.ask("heading", text)
        return text

    def item(self, marker: str, text: str, font: str = "") -> None:
        """Draw a list item."""
        self.room(4 * self.size)
        self.put(self.x0 + 6, self.y + self.size, marker, font or self.regular)
        self.flow(text, hang=12 + 1.5 * self.size)
        self.y += 3

    def picture(self, width: float, height: float, x: float | None = None, named: str = "") -> None:
        """Draw a picture of boxes, the same for the same name."""
        self.room(height + 40)
        x = (self.x0 + self.x1 - width) / 2 if x is None else x
        self.shape("image", x, self.y, x + width, self.y + height, text=named or str(self.pick.randrange(10**6)))
        self.y += height + 4

    def rows(
        self, rows: Sequence[Sequence[str]], *, rules: str = "grid", head: bool = True, x0: float | None = None
    ) -> None:
        """Draw a table of short cells, and ask for its rows. rules: grid, rows, none."""
        x0 = self.x0 if x0 is None else x0
        size, high = 0.92 * self.size, 1.9 * self.size
        columns = zip(*rows, strict=True)
        widths = [max(width_of(cell, self.bold, size) for cell in column) + 16 for column in columns]
        self.room(len(rows) * high)
        top = self.y
        for number, row in enumerate(rows):
            x = x0
            for cell, width in zip(row, widths, strict=True):
                self.put(x + 4, self.y + 0.65 * high, cell, self.bold if head and not number else self.regular, size)
                x += width
            self.y += high
            if rules != "none":
                self.shape("rule", x0, self.y, x, self.y)
            self.ask("row", " | ".join(row))
        if rules == "grid":
            edges = [x0 + sum(widths[:at]) for at in range(len(widths) + 1)]
            for edge in edges:
                self.shape("rule", edge, top, edge, self.y)
            self.shape("rule", x0, top, edges[-1], top)
        self.y += self.size

    def write(self) -> bytes:
        """Return the PDF."""
        import pymupdf

        document = pymupdf.open()
        for number, operations in enumerate(self.pages, 1):
            page = document.new_page(width=WIDTH, height=HEIGHT)
            for operation in operations:
                _draw(page, _turned(operation) if number in self.turned else operation)
            page.set_rotation(self.turned.get(number, 0))
        for number, box in self.struck:
            document[number - 1].add_strikeout_annot(pymupdf.Rect(*box))
        for name in self.attached:
            document.embfile_add(name, b"%PDF-1.4 inner", filename=name)
        return bytes(document.tobytes(deflate=True))


def _turned(operation: Operation) -> Operation:
    x, y, x1, y1 = operation.x, operation.y, operation.x1, operation.y1
    if operation.kind != "text":
        return replace(operation, x=min(y, y1), y=HEIGHT - max(x, x1), x1=max(y, y1), y1=HEIGHT - min(x, x1), degrees=90)
    return replace(operation, x=y, y=HEIGHT - x, degrees=90)


def _draw(page: "pymupdf.Page", operation: Operation) -> None:
    import pymupdf

    start, end = pymupdf.Point(operation.x, operation.y), pymupdf.Point(operation.x1, operation.y1)
    match operation.kind:
        case "text":
            morph = (start, pymupdf.Matrix(operation.degrees)) if operation.degrees else None
            page.insert_text(
                start,
                operation.text,
                fontname=operation.font,
                fontsize=operation.size,
                color=operation.colour,
                render_mode=operation.mode,
                morph=morph,
            )
        case "rule":
            page.draw_line(start, end, width=0.6, color=operation.colour)
        case "frame":
            page.draw_rect(pymupdf.Rect(start, end), width=0.7)
        case "box":
            page.draw_rect(pymupdf.Rect(start, end), fill=operation.colour, color=None)
        case _:
            page.insert_image(pymupdf.Rect(start, end), pixmap=_pixels(operation.text), rotate=int(operation.degrees))


def _pixels(seed: str) -> "pymupdf.Pixmap":
    import pymupdf

    pick = random.Random(seed)
    pixels = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 160, 100), False)
    pixels.clear_with(pick.randint(200, 235))
    for _ in range(9):
        x, y = pick.randint(0, 120), pick.randint(0, 70)
        colour = (pick.randint(0, 200), pick.randint(0, 200), pick.randint(0, 200))
        pixels.set_rect(pymupdf.IRect(x, y, x + pick.randint(12, 40), y + pick.randint(10, 30)), colour)
    return pixels
