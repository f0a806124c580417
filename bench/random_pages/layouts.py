"""Further kinds: indexes, logs, forms, margins, turned pages, pictures on several pages. Each is a function of a drawing."""

from bench.random_pages.drawing import MONO, WIDTH, Drawing
from bench.random_pages.kinds import HEADS, KINDS, QUIRKS, at_margin, enter_in

__all__ = ["HEADS", "KINDS", "QUIRKS", "SHORT_HEADS"]
SHORT_HEADS = ("page_numbers", "names_in_margins")
"""Running heads of documents of one or two pages."""
_FIGURE_WORDS = ("Figure {}.", "Abbildung {}.", "Abb. {}:", "Figura {}.", "Fig. {}:", "Bild {}.")


@enter_in(KINDS)
def index_page(drawing: Drawing) -> None:
    """Draw an index in two or three columns: terms with their pages, lesser terms indented, a letter over each group."""
    drawing.new_page()
    drawing.heading("Index")
    columns, size = drawing.pick.choice((2, 2, 3)), drawing.pick.uniform(7.5, 9)
    pitch, top, has_letters = drawing.pick.uniform(1.2, 1.4) * size, drawing.y, drawing.pick.random() < 0.6
    width = (drawing.x1 - drawing.x0) / columns
    for column in range(columns):
        x, y = drawing.x0 + column * width, top
        for group in range(drawing.pick.randint(3, 6)):
            if has_letters:
                y += 1.6 * pitch
                drawing.put(x, y, chr(65 + column * 7 + group), drawing.bold, 1.2 * size)
            for entry in range(drawing.pick.randint(3, 7)):
                y += pitch
                term = f"{drawing.thing().split(' of')[0]} {drawing.code()}"
                pages = ", ".join(str(drawing.pick.randint(2, 400)) for _ in range(drawing.pick.randint(1, 3)))
                drawing.put(x + 10 * (entry % 3 == 2), y, f"{term}, {pages}", size=size)
                drawing.ask("line", f"{term}, {pages}")
            y += 0.7 * pitch
    drawing.new_page()


@enter_in(KINDS)
def log(drawing: Drawing) -> None:
    """Draw the lines of a log, in monospace or not, with single blanks or in columns."""
    pick, font = drawing.pick, drawing.pick.choice((MONO, MONO, drawing.regular))
    size, gap = 0.8 * drawing.size, pick.choice((" ", " ", "  "))
    form = pick.choice(
        ("2031-04-{:02} 12:{:02}:07", "[{:02}.04.2031 08:{:02}]", "{:02}:{:02}:41.250", "Apr {:2} 17:{:02}:20")
    )
    for number in range(pick.randint(8, 14)):
        drawing.room(30)
        level = pick.choice(("INFO", "WARN", "ERROR", "DEBUG"))
        parts = [
            form.format(number + 1, number + 10),
            f"{level:5}",
            f"{drawing.code()}:",
            f"{drawing.thing().split(' of')[0]} ready",
        ]
        drawing.put(drawing.x0, drawing.y + drawing.size, gap.join(parts), font, size)
        drawing.y += 1.3 * size
        drawing.ask("line", gap.join(parts))
    drawing.y += drawing.size


@enter_in(KINDS)
def drawn_form(drawing: Drawing) -> None:
    """Draw a form without fields: labels with values on rules or in boxes, and ticked boxes."""
    pick, size, x0 = drawing.pick, drawing.size, drawing.x0
    how, step = pick.choice(("rule", "frame", "over")), pick.uniform(22, 30)
    ticks, side = pick.choice(("cross", "letter")), pick.uniform(7, 10)
    drawing.room(9 * step)
    for at in range(pick.randint(4, 6)):
        label, value = drawing.thing().split(" of")[0].capitalize(), drawing.code()
        x, row = (x0 + 240, at // 2) if how == "over" and at % 2 else (x0, at // 2 if how == "over" else at)
        y = drawing.y + (row + 1) * 1.6 * step
        if how == "over":
            drawing.put(x + 3, y - 0.75 * step, label, size=0.7 * size)
            drawing.put(x + 5, y - 4, value)
            drawing.shape("frame", x, y - 1.2 * step, x + 230, y)
        else:
            y = drawing.y + (at + 1) * step
            drawing.put(x, y, f"{label}:")
            drawing.put(x0 + 155, y, value, drawing.italic)
            drawing.shape("rule", x0 + 150, y + 4, x0 + 330, y + 4)
            if how == "frame":
                drawing.shape("frame", x0 + 150, y - 14, x0 + 330, y + 4)
        drawing.ask("near", label, value)
    drawing.y += 7 * step
    for _ in range(3):
        drawing.room(40)
        y, is_on, label = drawing.y + size, pick.random() < 0.5, drawing.thing()
        drawing.shape("frame", x0, y - side, x0 + side, y)
        if is_on and ticks == "letter":
            drawing.put(x0 + 1.2, y - 0.5, "X", size=side)
        for rise in (0, side) if is_on and ticks == "cross" else ():
            drawing.shape("rule", x0, y - rise, x0 + side, y - side + rise)
        drawing.put(x0 + 18, y, label)
        drawing.y += 20
        drawing.ask("ticked", label, "on" if is_on else "")


@enter_in(KINDS)
def margin_notes(drawing: Drawing) -> None:
    """Draw paragraphs with small notes in the margin beside them."""
    x0, x1, size = drawing.x0, drawing.x1, drawing.size
    is_left, font = drawing.pick.random() < 0.5, drawing.pick.choice((drawing.italic, drawing.regular))
    for _ in range(3):
        drawing.room(130)
        note, top = drawing.step(), drawing.y
        drawing.x0, drawing.x1 = (x0 + 115, x1) if is_left else (x0, x1 - 115)
        drawing.paragraph(f"{drawing.sentence()} {drawing.sentence()} {drawing.sentence()}")
        drawing.x0, drawing.x1, end, drawing.y = x0, x1, drawing.y, top
        for line in drawing.lines(note, font, 0.8 * size, 95):
            drawing.put(x0 if is_left else x1 - 95, drawing.y + size, line, font, 0.8 * size)
            drawing.y += size
        drawing.y = end
        drawing.ask("whole", note)


@enter_in(KINDS)
def marginal_line_numbers(drawing: Drawing) -> None:
    """Draw paragraphs with the number of each fifth line, or of each, in the margin."""
    step, number, size = drawing.pick.choice((1, 5)), 0, drawing.size
    drawing.new_page()
    for _ in range(5):
        text, top = f"{drawing.sentence()} {drawing.sentence()} {drawing.sentence()}", drawing.y
        for at in range(len(drawing.lines(text, drawing.regular, size, drawing.x1 - drawing.x0))):
            number += 1
            if number % step == 0:
                drawing.put(drawing.x0 - 26, top + (1 + 1.25 * at) * size, str(number), size=0.75 * size)
        drawing.paragraph(text)


def _turned(drawing: Drawing, rotation: int) -> None:
    drawing.turned_page(rotation)
    drawing.heading()
    drawing.paragraph()
    rows = [["Part", "Code", "Pressure", "Weight"]]
    rows += [
        [drawing.thing(), drawing.code(), f"{drawing.pick.randint(2, 90)} bar", f"{drawing.pick.randint(2, 90)}.5 kg"]
        for _ in range(drawing.pick.randint(5, 9))
    ]
    drawing.rows(rows, rules=drawing.pick.choice(("grid", "rows", "none")))
    drawing.paragraph()
    drawing.new_page()


@enter_in(KINDS)
def turned_contents(drawing: Drawing) -> None:
    """Draw a page whose heading, paragraphs and table run upwards."""
    _turned(drawing, 0)


@enter_in(KINDS)
def turned_page(drawing: Drawing) -> None:
    """Draw a page that is shown turned."""
    _turned(drawing, 90)


@enter_in(KINDS)
def turned_table(drawing: Drawing) -> None:
    """Draw a table that runs upwards, with its caption, alone on a page."""
    drawing.turned_page(0)
    drawing.y += drawing.pick.uniform(20, 120)
    drawing.flow(f"Table {drawing.pick.randint(2, 9)}. {drawing.name()}", drawing.bold)
    drawing.y += 6
    values = [[drawing.thing(), *(f"{drawing.pick.uniform(1, 99):.2f}" for _ in range(5))] for _ in range(8)]
    drawing.rows(
        [["Test", "Least", "Most", "Mean", "First", "Last"], *values], rules=drawing.pick.choice(("grid", "rows", "none"))
    )
    drawing.new_page()


@enter_in(KINDS)
def code_in_columns(drawing: Drawing) -> None:
    """Draw two columns of text, with a listing in each."""
    drawing.new_page()
    x0, x1, middle = drawing.x0, drawing.x1, WIDTH / 2
    for side in ((x0, middle - 12), (middle + 12, x1)):
        drawing.x0, drawing.x1, drawing.y = *side, 90
        for _ in range(2):
            drawing.paragraph()
            words = [drawing.thing().split()[1] for _ in range(drawing.pick.randint(4, 8))]
            lines = [f"{'  ' * (at % 3)}{word}_{at} = get({at * 7})" for at, word in enumerate(words)]
            for line in lines:
                drawing.y += 1.1 * drawing.size
                drawing.put(drawing.x0, drawing.y, line, MONO, 0.8 * drawing.size)
            drawing.y += drawing.size
            drawing.ask("fenced", "\n".join(line.strip() for line in lines))
            drawing.paragraph()
    drawing.new_page()


@enter_in(KINDS)
def continued_figure(drawing: Drawing) -> None:
    """Draw a figure that goes on over pages, with a caption on each."""
    number, name = drawing.pick.randint(2, 30), drawing.name()
    form = drawing.pick.choice(
        ("Figure {} (continued)", "Figure {} (continued): {}", "Fig. {} (cont.)", "Figure {} – continued")
    )
    for part, caption in enumerate((f"{form.split()[0]} {number}. {name}", *[form.format(number, name)] * 2)):
        drawing.new_page()
        if part == 0:
            drawing.paragraph()
        drawing.picture(300, drawing.pick.uniform(150, 260))
        drawing.flow(caption, drawing.pick.choice((drawing.regular, drawing.italic, drawing.bold)), 0.9 * drawing.size)
        drawing.y += drawing.size
        drawing.ask("caption", caption)
        drawing.paragraph()


@enter_in(KINDS)
def languages_in_turn(drawing: Drawing) -> None:
    """Draw the same picture at the same place of six pages, with the caption of another language or with none."""
    pictured, has_captions = str(drawing.pick.randrange(10**6)), drawing.pick.random() < 0.5
    for words in _FIGURE_WORDS:
        drawing.new_page()
        drawing.heading()
        drawing.item("1.", drawing.step())
        drawing.picture(220, 130, named=pictured)
        if has_captions:
            caption = f"{words.format(1)} {drawing.name()}"
            drawing.flow(caption, drawing.italic, 0.9 * drawing.size)
            drawing.y += drawing.size
            drawing.ask("caption", caption)
        drawing.ask("pictured", "")
        drawing.paragraph()


@enter_in(KINDS)
def pictures_in_cells(drawing: Drawing) -> None:
    """Draw a ruled list of parts, with a picture that fills a cell of each row."""
    drawing.new_page()
    widths, high, pad = (
        (60.0, drawing.pick.uniform(80, 140), 200.0),
        drawing.pick.uniform(60, 90),
        drawing.pick.uniform(0, 4),
    )
    order = drawing.pick.sample(range(3), 3)
    edges = [drawing.x0]
    for column in order:
        edges.append(edges[-1] + widths[column])
    top = drawing.y
    for row in range(drawing.pick.randint(4, 6)):
        texts = ("No." if row == 0 else str(row), "Picture" if row == 0 else "", "Part" if row == 0 else drawing.thing())
        height = 22 if row == 0 else high
        for at, column in enumerate(order):
            if row and column == 1:
                box = (edges[at] + pad, drawing.y + pad, edges[at + 1] - pad, drawing.y + height - pad)
                drawing.shape("image", *box, text=str(drawing.pick.randrange(10**6)))
            drawing.put(edges[at] + 5, drawing.y + height / 2 + 4, texts[column], drawing.bold if row == 0 else "")
        drawing.shape("rule", edges[0], drawing.y, edges[-1], drawing.y)
        drawing.y += height
        drawing.ask("row", " | ".join(texts[column] for column in order), "tag" if row else "")
    drawing.shape("rule", edges[0], drawing.y, edges[-1], drawing.y)
    for edge in edges:
        drawing.shape("rule", edge, top, edge, drawing.y)
    drawing.y += drawing.size


@enter_in(HEADS)
def names_in_margins(drawing: Drawing) -> None:
    """Draw a name over the text, and a number of the document with its edition below it."""
    name, edition = drawing.name(), f"{drawing.code()}, edition {drawing.pick.randint(2, 9)}"
    for number in range(1, len(drawing.pages) + 1):
        at_margin(drawing, number, name)
        at_margin(drawing, number, edition, foot=True, right=drawing.pick.random() < 0.5)


@enter_in(HEADS)
def heads_with_a_logo(drawing: Drawing) -> None:
    """Draw a small picture and a name over each page, with a rule below them."""
    logo, name = str(drawing.pick.randrange(10**6)), drawing.name()
    for number in range(1, len(drawing.pages) + 1):
        page = drawing.pages[number - 1]
        at_margin(drawing, number, name, right=True)
        drawing.pages[-1], last = page, drawing.pages[-1]
        drawing.shape("image", drawing.margin, 24, drawing.margin + 60, 46, text=logo)
        drawing.shape("rule", drawing.margin, 50, WIDTH - drawing.margin, 50)
        drawing.pages[-1] = last
        at_margin(drawing, number, str(number), foot=True)


@enter_in(HEADS)
def heads_on_some_pages(drawing: Drawing) -> None:
    """Draw a head on right pages alone, or on all but those that begin a section; a foot on each."""
    step, first = drawing.pick.choice(((2, 0), (3, 1)))
    for number in range(1, len(drawing.pages) + 1):
        if number % step != first:
            at_margin(drawing, number, drawing.title)
        at_margin(drawing, number, f"{number} of {len(drawing.pages)}", foot=True)


@enter_in(HEADS)
def chapters_and_numbers(drawing: Drawing) -> None:
    """Draw the chapter's name, for two pages each, and the page's number over the text."""
    names = [drawing.name() for _ in range(len(drawing.pages) // 2 + 1)]
    for number in range(1, len(drawing.pages) + 1):
        at_margin(drawing, number, f"{(number + 1) // 2} {names[number // 2]}", right=number % 2 == 0)
        at_margin(drawing, number, str(number + 10), foot=True)
