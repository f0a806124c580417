"""What a synthetic manual says, before it is laid out on pages."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.synthetic.options import STEP_ARTS, Options
from tests.synthetic.prose import ENGLISH, HEBREW, LANGUAGES, LISTINGS, Language, fill, sentences, words


@dataclass(frozen=True, slots=True)
class Icon:
    """A small picture in a line of text."""

    id: str


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a section; ``path`` are the titles over it and its own."""

    id: str
    level: int
    title: str
    path: tuple[str, ...]
    language: Language


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text; ``mentions`` are figures by the words that name them."""

    id: str
    words: tuple[str | Icon, ...]
    path: tuple[str, ...]
    language: Language
    mentions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with its caption; ``aspect`` is its height over its width, ``share`` its width over the column's."""

    id: str
    art: str
    share: float
    aspect: float
    caption: str
    label: str
    path: tuple[str, ...]
    language: Language
    above: bool = False
    floating: bool = False
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header; ``pictures`` says in which rows the last cell is an icon."""

    id: str
    style: str
    rows: tuple[tuple[str, ...], ...]
    caption: str
    label: str
    path: tuple[str, ...]
    language: Language
    pictures: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    """A shaded listing, or a note with a border: no figure, however it is drawn."""

    id: str
    kind: str
    lines: tuple[str, ...]
    path: tuple[str, ...]
    language: Language


@dataclass(frozen=True, slots=True)
class Step:
    """What a picture without a caption stands by; ``aspect`` is the picture's height over its width."""

    id: str
    words: tuple[str, ...]
    name: str
    art: str
    aspect: float


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps with pictures; ``layout`` is one of ``LAYOUTS``."""

    id: str
    layout: str
    steps: tuple[Step, ...]
    path: tuple[str, ...]
    language: Language


Item = Heading | Paragraph | Picture | Table | Box | Steps


@dataclass(frozen=True, slots=True)
class Chapter:
    """A run of items in one language and one number of columns."""

    title: str
    columns: int
    language: Language
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A golden question in the making: what it asks, and the block, figure or table that answers."""

    question: str
    answer: str | None
    source: str


class Shares:
    """Deals out what is due by its share: as evenly as can be, from a random start."""

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        self._held: dict[str, float] = {}

    def due(self, name: str, share: float) -> bool:
        """Return whether this occasion gets one."""
        accumulated = self._held.setdefault(name, self._pick.uniform(0.3, 0.7)) + share
        self._held[name] = accumulated - (accumulated >= 1)
        return accumulated >= 1


@dataclass
class Author:
    """Writes chapters. All that is random comes from ``pick``."""

    pick: random.Random
    options: Options
    asks: list[Ask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shares = Shares(self.pick)
        self._codes = iter(self.pick.sample(range(1000, 9999), 6000))
        self._count = 0
        self._arts = 0
        self._styles = 0
        self._layouts: dict[bool, int] = {}
        self._dash = self.pick.choice("-.")
        self._first_art = self.pick.randrange(len(self.options.arts))

    def chapters(self, count: int) -> list[Chapter]:
        """Write chapters; what they mention of each other is known beforehand."""
        plans: list[tuple[int, Language, list[list[Picture]]]] = []
        for number in range(1, count + 1):
            language = LANGUAGES[self.options.languages[(number - 1) % len(self.options.languages)]]
            labels = iter(range(1, 99))
            sections = [
                []
                if language is HEBREW
                else [self._picture(f"{number}{self._dash}", labels, language) for _ in range(self.pick.randint(1, 2))]
                for _ in range(self.pick.randint(2, 4))
            ]
            plans.append((number, language, sections))
        labelled = [
            (number, picture)
            for number, _, sections in plans
            for section in sections
            for picture in section
            if picture.label
        ]
        return [self._chapter(number, language, sections, labelled) for number, language, sections in plans]

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def _code(self) -> str:
        return f"{self.pick.choice('BHKMT')}{next(self._codes)}"

    def _picture(self, chapter: str, labels: Iterator[int], language: Language) -> Picture:
        options, pick = self.options, self.pick
        art = options.arts[(self._first_art + self._arts) % len(options.arts)]
        self._arts += 1
        title = f"{fill(pick.choice(language.captions), pick, language)} ({self._code()})"
        bare = self.shares.due("uncaptioned", options.uncaptioned)
        unnumbered = not bare and self.shares.due("unnumbered", options.unnumbered)
        label = "" if bare or unnumbered else f"{chapter}{next(labels)}"
        caption = (
            ""
            if bare
            else language.bare.format(word=language.figure, title=title)
            if unnumbered
            else language.numbered.format(word=language.figure, number=label, title=title)
        )
        picture = Picture(
            self._name("f"),
            art,
            share=pick.uniform(0.5, 0.8),
            aspect=pick.uniform(0.5, 0.7),
            caption=caption,
            label=label,
            path=(),
            language=language,
            above=bool(caption) and self.shares.due("above", options.above),
            floating=bool(label) and self.shares.due("floats", options.floats),
            wide=self.shares.due("wide", options.wide),
        )
        if caption:
            self.asks.append(Ask(language.show.format(title=title), caption, picture.id))
        return picture

    def _chapter(
        self, number: int, language: Language, sections: list[list[Picture]], known: list[tuple[int, Picture]]
    ) -> Chapter:
        pick = self.pick
        title = f"{number} {fill(pick.choice(language.chapters), pick, language)}"
        items: list[Item] = [Heading(self._name("h"), 1, title, (title,), language)]
        elsewhere = [] if language is HEBREW else [picture for chapter, picture in known if chapter != number]
        items.append(self._paragraph((title,), language, [], elsewhere))
        for section_number, pictures in enumerate(sections, 1):
            path = (title, f"{number}.{section_number} {fill(pick.choice(language.sections), pick, language)}")
            items.append(Heading(self._name("h"), 2, path[1], path, language))
            items.extend(self._section(path, f"{number}.{section_number}", language, pictures, elsewhere))
        columns = 2 if self.shares.due("columns", self.options.two_columns) else 1
        return Chapter(title, columns, language, tuple(items))

    def _section(
        self, path: tuple[str, ...], number: str, language: Language, pictures: list[Picture], elsewhere: list[Picture]
    ) -> Iterator[Item]:
        pick = self.pick
        for order, picture in enumerate(pictures):
            yield self._paragraph(path, language, [picture] if picture.label else [], elsewhere)
            yield Picture(**{**{name: getattr(picture, name) for name in Picture.__slots__}, "path": path})
            yield self._paragraph(path, language, [], elsewhere)
            if order == 0 and pick.random() < 0.3:
                title = f"{number}.1 {fill(pick.choice(language.sections), pick, language)}"
                path = (*path[:2], title)
                yield Heading(self._name("h"), 3, title, path, language)
                yield self._paragraph(path, language, [], elsewhere)
        for _ in range(2 if self.options.steps else 0):
            yield self._steps(path, language)
            yield self._paragraph(path, language, [], elsewhere)
        if language is not HEBREW and self.shares.due("table", 0.5):
            yield self._table(path, language, number)
            yield self._paragraph(path, language, [], elsewhere)
        if self.shares.due("box", self.options.boxes):
            yield self._box(path, language)
            yield self._paragraph(path, language, [], elsewhere)

    def _paragraph(
        self, path: tuple[str, ...], language: Language, shown: list[Picture], elsewhere: list[Picture]
    ) -> Paragraph:
        pick, name = self.pick, self._name("p")
        texts = sentences(pick, language, pick.randint(2, 5))
        part, code, value = pick.choice(language.parts), self._code(), str(pick.randint(3, 240))
        texts.insert(pick.randint(0, len(texts)), language.fact.format(a=part, code=code, value=value))
        self.asks.append(Ask(language.ask.format(a=part, code=code), f"{value} Nm", name))
        mentioned = list(shown)
        for picture in shown:
            texts.insert(0, fill(pick.choice(language.mention), pick, language, n=picture.label))
        if elsewhere and self.shares.due("far", self.options.far):
            mentioned.append(pick.choice(elsewhere))
            texts.append(fill(pick.choice(language.far), pick, language, n=mentioned[-1].label))
        if self.shares.due("lookalikes", self.options.lookalikes):
            texts.insert(1, f"<image:{pick.randrange(10**8):08d}.png>")
        tokens: list[str | Icon] = [word for text in texts for word in words(text, language)]
        if language is not HEBREW and self.shares.due("icons", self.options.icons):
            tokens.insert(pick.randint(1, len(tokens) - 1), Icon(self._name("i")))
        return Paragraph(name, tuple(tokens), path, language, tuple((figure.id, figure.label) for figure in mentioned))

    def _table(self, path: tuple[str, ...], language: Language, number: str) -> Table:
        pick = self.pick
        style = self.options.tables[self._styles % len(self.options.tables)]
        self._styles += 1
        count = 44 if style == "long" else pick.randint(3, 7)
        header = ("Part", "Code", "Nm", "Key") if style == "pictured" else ("Part", "Code", "Nm")
        rows: list[tuple[str, ...]] = [header]
        for _ in range(count):
            part, code, value = pick.choice(language.parts), self._code(), str(pick.randint(3, 240))
            rows.append((part, code, value, "")[: len(header)])
        label = f"{number.replace('.', self._dash)}"
        title = fill(language.torque, pick, language)
        name = self._name("t")
        asked_row = pick.choice(rows[1:])
        self.asks.append(Ask(language.ask.format(a=asked_row[0], code=asked_row[1]), f"{asked_row[2]} Nm", name))
        return Table(
            name,
            style,
            tuple(rows),
            language.numbered.format(word=language.table, number=label, title=title),
            label,
            path,
            language,
            tuple(range(1, len(rows), 2)) if style == "pictured" else (),
        )

    def _steps(self, path: tuple[str, ...], language: Language) -> Steps:
        pick, options = self.pick, self.options
        # In which order the cells of a row are read that runs from right to left isn't certain.
        layouts = [layout for layout in options.steps if language is not HEBREW or layout not in {"ruled", "rows"}]
        at = self._layouts.setdefault(language is HEBREW, pick.randrange(len(layouts)))
        self._layouts[language is HEBREW] = at + 1
        name = self._name("s")
        steps: list[Step] = []
        for number in range(1, pick.randint(3, 5)):
            part, code, value = pick.choice(language.parts), self._code(), str(pick.randint(3, 240))
            texts = [language.fact.format(a=part, code=code, value=value), *sentences(pick, language, pick.randint(0, 2))]
            self.asks.append(Ask(language.ask.format(a=part, code=code), f"{value} Nm", f"{name}.{number}"))
            tokens = tuple(word for text in texts for word in words(text, language))
            art = STEP_ARTS[len(steps) % len(STEP_ARTS)]
            steps.append(Step(f"{name}.{number}", tokens, f"{part.capitalize()} {code}", art, pick.uniform(0.5, 0.75)))
        return Steps(name, layouts[at % len(layouts)], tuple(steps), path, language)

    def _box(self, path: tuple[str, ...], language: Language) -> Box:
        pick = self.pick
        if pick.random() < 0.5:
            lines = [
                pick.choice(LISTINGS).format(a=pick.randint(10, 99), b=pick.randint(1, 9))
                for _ in range(pick.randint(4, 8))
            ]
            if self.shares.due("lookalikes", self.options.lookalikes):
                lines[1] = f"<image:{pick.randrange(10**8):08d}.png>"
            return Box(self._name("b"), "listing", tuple(lines), path, ENGLISH)
        word = pick.choice(("NOTE", "CAUTION", "WARNING"))
        return Box(self._name("b"), "note", (word, *sentences(pick, ENGLISH, 2)), path, ENGLISH)
