"""What is drawn: kinds of content, running heads, and quirks of how a PDF is written. Each is a function of a drawing."""

from collections.abc import Callable
from dataclasses import replace

from bench.random_pages.drawing import DINGBATS, HEIGHT, MONO, WIDTH, Drawing, Operation, width_of

Draw = Callable[[Drawing], None]
KINDS: dict[str, Draw] = {}
HEADS: dict[str, Draw] = {}
QUIRKS: dict[str, Draw] = {}


def enter_in(table: dict[str, Draw]) -> Callable[[Draw], Draw]:
    """Enter a function in a table by its name."""

    def enter(draw: Draw) -> Draw:
        table[draw.__name__] = draw
        return draw

    return enter


@enter_in(KINDS)
def sections(drawing: Drawing) -> None:
    """Draw headings with paragraphs."""
    for _ in range(2):
        drawing.heading()
        drawing.paragraph()


@enter_in(KINDS)
def symbol_bullets(drawing: Drawing) -> None:
    """Draw items whose bullet is of a font of symbols."""
    drawn = drawing.pick.choice("nlu")
    for _ in range(4):
        text = drawing.step()
        drawing.item(drawn, text, DINGBATS)
        drawing.ask("item", text)


@enter_in(KINDS)
def tick_boxes(drawing: Drawing) -> None:
    """Draw ticked and empty boxes of a font of symbols before their labels."""
    for _ in range(4):
        is_on, text = drawing.pick.random() < 0.5, drawing.thing()
        drawing.item("4" if is_on else "o", text, DINGBATS)
        drawing.ask("ticked", text, "on" if is_on else "")


@enter_in(KINDS)
def parts_of_a_drawing(drawing: Drawing) -> None:
    """Draw a picture with callout numbers, and the list of its parts in two columns."""
    drawing.picture(260, 120)
    names = [f"{drawing.thing()}, no. {drawing.code()}" for _ in range(6)]
    top, x0 = drawing.y + 12, drawing.x0
    for number, name in enumerate(names):
        column, row = divmod(number, 3)
        x, y = x0 + 240 * column, top + row * 1.4 * drawing.size
        drawing.put(x, y, str(number + 1), drawing.bold, 0.85 * drawing.size)
        drawing.put(x + 18, y, name, size=0.85 * drawing.size)
        drawing.ask("line", f"{number + 1} {name}")
    drawing.y = top + 5 * drawing.size


@enter_in(KINDS)
def drop_cap(drawing: Drawing) -> None:
    """Draw a paragraph whose first letter is three lines high."""
    text = f"{drawing.sentence()} {drawing.sentence()} {drawing.sentence()}"
    drawing.room(120)
    size, top = drawing.size, drawing.y
    indent = width_of(text[0], drawing.bold, 3.4 * size) + 3
    drawing.put(drawing.x0, top + 3.3 * size, text[0], drawing.bold, 3.4 * size)
    rest, x0 = text[1:], drawing.x0
    for _ in range(3):
        line = drawing.lines(rest, drawing.regular, size, drawing.x1 - x0 - indent)[0]
        drawing.put(x0 + indent, drawing.y + size, line)
        drawing.y += 1.25 * size
        rest = rest[len(line) :].strip()
    drawing.flow(rest)
    drawing.y += size
    drawing.ask("whole", text)


@enter_in(KINDS)
def side_heads(drawing: Drawing) -> None:
    """Draw heads in the margin of their paragraphs."""
    x0 = drawing.x0
    for _ in range(3):
        drawing.room(80)
        head, text = drawing.name(), drawing.sentence()
        drawing.put(x0, drawing.y + drawing.size, head.split(" of ")[0], drawing.bold)
        drawing.x0 = x0 + 110
        drawing.flow(text)
        drawing.x0 = x0
        drawing.y += 22
        drawing.ask("whole", text)


@enter_in(KINDS)
def unnumbered_caption(drawing: Drawing) -> None:
    """Draw a picture with a caption in bold that has no number."""
    drawing.paragraph()
    drawing.picture(220, 110)
    caption = drawing.thing().capitalize()
    width = width_of(caption, drawing.bold, 0.9 * drawing.size)
    drawing.put((WIDTH - width) / 2, drawing.y + drawing.size, caption, drawing.bold, 0.9 * drawing.size)
    drawing.y += 2.4 * drawing.size
    drawing.ask("caption", caption)
    drawing.paragraph()


@enter_in(KINDS)
def several_languages(drawing: Drawing) -> None:
    """Draw the same picture at the same place of five pages, each time with another caption."""
    pictured = str(drawing.pick.randrange(10**6))
    for number in range(1, 6):
        drawing.new_page()
        drawing.heading()
        drawing.picture(220, 130, named=pictured)
        caption = f"Figure {number}. {drawing.name()}"
        drawing.flow(caption, drawing.italic, 0.9 * drawing.size)
        drawing.y += drawing.size
        drawing.ask("caption", caption)
        drawing.paragraph()


@enter_in(KINDS)
def listing(drawing: Drawing) -> None:
    """Draw code with line numbers and an empty line."""
    words = [drawing.thing().split()[1] for _ in range(8)]
    lines = [f"{'    ' * (at % 3)}{word}_{at} = read({at * 7})" for at, word in enumerate(words)]
    lines[3] = ""
    drawing.room(12 * drawing.size)
    for number, line in enumerate(lines, 1):
        drawing.y += 1.2 * drawing.size
        drawing.put(drawing.x0, drawing.y, f"{number:2}", MONO, 0.8 * drawing.size)
        if line:
            drawing.put(drawing.x0 + 24, drawing.y, line, MONO, 0.85 * drawing.size)
    drawing.y += 2 * drawing.size
    drawing.ask("code", "\n".join(line.strip() for line in lines if line))
    drawing.paragraph()


@enter_in(KINDS)
def values_of_a_part(drawing: Drawing) -> None:
    """Draw parameter, condition, least, typical, most and unit."""
    rows = [["Parameter", "Condition", "Min", "Typ", "Max", "Unit"]]
    for _ in range(drawing.pick.randint(4, 6)):
        low = drawing.pick.randint(1, 90)
        rows.append([drawing.thing().split(" of")[0], f"at {low + 20} rpm", str(low), str(low + 3), str(low + 9), "mA"])
    drawing.rows(rows, rules=drawing.pick.choice(("grid", "rows")))


@enter_in(KINDS)
def rows_without_a_head(drawing: Drawing) -> None:
    """Draw steps in rows of a table without a head."""
    drawing.rows([[str(at), drawing.step()] for at in range(1, 6)], head=False)
    drawing.paragraph()


@enter_in(KINDS)
def raised_signs(drawing: Drawing) -> None:
    """Draw exponents and indices in sentences."""
    for base, sign, up in (("10", "6", True), ("H", "2", False), ("cm", "3", True)):
        first, last = drawing.sentence(), f"and a {drawing.thing()}."
        drawing.flow(first)
        x = drawing.put(drawing.x0, drawing.y + drawing.size, f"It takes 4 {base}")
        shift = -0.35 if up else 0.15
        x = drawing.put(x, drawing.y + (1 + shift) * drawing.size, sign, size=0.65 * drawing.size)
        drawing.put(x, drawing.y + drawing.size, f" {last}")
        drawing.y += 2.2 * drawing.size
        drawing.ask("word", f"{base}{sign}")


@enter_in(KINDS)
def marks_in_cells(drawing: Drawing) -> None:
    """Draw a table of values, and after it the marks of their footnotes."""
    values = [(drawing.thing(), str(drawing.pick.randint(10, 400))) for _ in range(4)]
    height, x0, across = 2 * drawing.size, drawing.x0, 220
    drawing.room(6 * height)
    top = drawing.y
    for row in range(len(values) + 1):
        drawing.shape("rule", x0, top + row * height, x0 + 1.5 * across, top + row * height)
    for x in (x0, x0 + across, x0 + 1.5 * across):
        drawing.shape("rule", x, top, x, top + len(values) * height)
    ends = []
    for row, (name, value) in enumerate(values):
        base = top + (row + 0.7) * height
        drawing.put(x0 + 5, base, name)
        ends.append((drawing.put(x0 + across + 5, base, value), base))
    for mark, ((x, base), (name, value)) in enumerate(zip(ends, values, strict=True), 1):
        drawing.put(x + 0.5, base - drawing.pick.uniform(0.15, 0.4) * drawing.size, str(mark), size=0.65 * drawing.size)
        drawing.ask("row", f"{name} | {value}{mark}")
    drawing.y = top + (len(values) + 1) * height


@enter_in(KINDS)
def struck_out(drawing: Drawing) -> None:
    """Draw a value crossed out by a rule or an annotation, and the new one."""
    for by_rule in (True, False):
        old, new, thing = (
            f"{drawing.pick.randint(100, 499)} psi",
            f"{drawing.pick.randint(500, 999)} psi",
            drawing.thing(),
        )
        drawing.room(40)
        x = drawing.put(drawing.x0, drawing.y + drawing.size, f"The {thing} opens at ")
        end = drawing.put(x, drawing.y + drawing.size, old)
        drawing.put(end, drawing.y + drawing.size, f" {new} after the test.")
        if by_rule:
            drawing.shape("rule", x, drawing.y + 0.68 * drawing.size, end, drawing.y + 0.68 * drawing.size)
        else:
            drawing.struck.append((len(drawing.pages), (x, drawing.y, end, drawing.y + 1.2 * drawing.size)))
        drawing.y += 2 * drawing.size
        drawing.ask("struck", old, new)


@enter_in(KINDS)
def numbered_paragraphs(drawing: Drawing) -> None:
    """Draw paragraphs with a number in the margin."""
    first, x0 = drawing.pick.randint(1, 90), drawing.x0
    for number in range(first, first + 4):
        drawing.room(70)
        text = drawing.sentence()
        drawing.put(x0, drawing.y + drawing.size, str(number), size=0.9 * drawing.size)
        drawing.x0 = x0 + 28
        drawing.flow(text)
        drawing.x0 = x0
        drawing.y += 0.8 * drawing.size
        drawing.ask("line", f"{number} {text}")


def at_margin(drawing: Drawing, number: int, text: str, *, foot: bool = False, right: bool = False) -> None:
    """Draw a running head or foot on a page, and ask for it."""
    if number in drawing.turned:
        return
    size = 0.8 * drawing.size
    x = WIDTH - drawing.margin - width_of(text, drawing.regular, size) if right else drawing.margin
    page = drawing.pages.pop(number - 1)
    drawing.pages.append(page)
    drawing.put(x, HEIGHT - 36 if foot else 40, text, size=size)
    drawing.pages.insert(number - 1, drawing.pages.pop())
    drawing.ask("margin", text, page=number)


@enter_in(HEADS)
def page_numbers(drawing: Drawing) -> None:
    """Number the pages at their foot."""
    for number in range(1, len(drawing.pages) + 1):
        at_margin(drawing, number, f"Page {number}", foot=True)


@enter_in(HEADS)
def alternating_heads(drawing: Drawing) -> None:
    """Draw another head with the number on left and right pages."""
    for number in range(1, len(drawing.pages) + 1):
        is_left = number % 2 == 0
        at_margin(drawing, number, f"{number}   {drawing.title}" if is_left else f"Guide   {number}", right=not is_left)


@enter_in(HEADS)
def chapter_heads(drawing: Drawing) -> None:
    """Draw a head that changes with the pages, and a company at the foot of some."""
    for number in range(1, len(drawing.pages) + 1):
        at_margin(drawing, number, f"Chapter {number}: {drawing.name()}")
        if number > 1:
            at_margin(drawing, number, f"{drawing.title} works", foot=True)


@enter_in(QUIRKS)
def watermark(drawing: Drawing) -> None:
    """Draw a large slanted word below the text."""
    for page in drawing.pages:
        grey = (0.85, 0.85, 0.85)
        page.insert(0, Operation("text", 130, 640, text="UNCONTROLLED", font="hebo", size=62, colour=grey, degrees=50))


@enter_in(QUIRKS)
def drawn_again(drawing: Drawing) -> None:
    """Draw each text twice, a little apart."""
    for page in drawing.pages:
        page[:] = [copy for op in page for copy in ((op, replace(op, x=op.x + 0.3)) if op.kind == "text" else (op,))]


@enter_in(QUIRKS)
def white_and_invisible(drawing: Drawing) -> None:
    """Write sentences that nobody sees between the others."""
    for number, page in enumerate(drawing.pages, 1):
        for colour, mode in (((1.0, 1.0, 1.0), 0), ((0.0, 0.0, 0.0), 3)):
            text = drawing.sentence()
            y = drawing.pick.uniform(90, 700)
            page.append(Operation("text", 60, y, text=text, font="helv", size=9, colour=colour, mode=mode))
            drawing.ask("absent", text, page=number)


@enter_in(QUIRKS)
def attachment(drawing: Drawing) -> None:
    """Attach a file, which must be named as not read."""
    drawing.attached.append("inner.pdf")
    drawing.ask("said", "attach")
