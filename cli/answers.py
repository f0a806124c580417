"""Show an answer in a terminal while it is written."""

from collections.abc import Iterable

from cli.terminal import print_table, say, show, show_text
from schemas.answers import AnswerEvent, AnswerFinished, AnswerResult, Part, PartFinished, TextDelta

RULE = "─" * 40


def show_answer(events: Iterable[AnswerEvent], *, everything: bool) -> AnswerResult:
    """Show an answer while it is written, folded parts only with ``everything``, and return its result.

    If the result differs from the parts shown, because the model failed, it follows below a line.
    """
    shown_parts: list[Part] = []
    in_text = False
    for event in events:
        match event:
            case TextDelta():
                show_text(event.text, end="")
                in_text = True
            case PartFinished():
                if in_text and event.value.type == "text":
                    show_text(f" {_marks(event.value)}\n")
                else:
                    _show(event.value, everything=everything)
                shown_parts.append(event.value)
                in_text = False
            case AnswerFinished():
                if in_text:
                    show_text("")
                _finish(event.result, shown_parts, everything=everything)
                return event.result
            case _:
                pass
    raise AssertionError("an answer ends with its result")


def _finish(result: AnswerResult, shown_parts: list[Part], *, everything: bool) -> None:
    if result.parts[: len(shown_parts)] != shown_parts:
        show(RULE)
        shown_parts = []
    if result.follow_up is not None:
        source = f", in {result.follow_up.source}" if result.follow_up.source else ""
        say(f"understood as: {result.follow_up.question}{source}")
    if result.note:
        say(result.note)
    if result.abstained:
        say("nothing in this version answers that")
    elif result.unsure:
        say("not sure: the nearest passage says" if result.model is None else "not sure that the documents answer this")
    for part in result.parts[len(shown_parts) :]:
        _show(part, everything=everything)
    shown_numbers = {number for part in result.parts if everything or not part.folded for number in part.citations}
    for citation in result.citations:
        if citation.n not in shown_numbers:
            continue
        name = f"{citation.title} ({citation.source})" if citation.title else citation.source
        region = next((cited_region for cited_region in citation.regions if cited_region.page == citation.page), None)
        page = region.page_name if region else f"page {citation.page}"
        origin = f"{citation.corpus}: " if citation.corpus else ""
        show(f"[{citation.n}] {origin}{': '.join([f'{name}, {page}', *citation.section_path[-1:]])}")
    folded = sum(part.folded for part in result.parts)
    if folded and not everything:
        say(f"{folded} more parts of these passages: --all")
    if result.model:
        counts = result.counts
        dropped = counts.unknown_tags + counts.unknown_citations
        notes = [
            f"written by {result.model}",
            *([f"{counts.uncited_sentences} sentences cite nothing"] if counts.uncited_sentences else []),
            *([f"{counts.unsupported} with a number, name or negation that no passage has"] if counts.unsupported else []),
            *([f"{dropped} unknown tags or citations dropped"] if dropped else []),
        ]
        say("; ".join(notes))


def _show(part: Part, *, everything: bool) -> None:
    if part.folded and not everything:
        return
    if part.type == "text":
        indent = "    " if part.style == "code" else ""
        lines = "\n".join(f"{indent}{line}" for line in part.text.splitlines())
        show_text(f"{lines} {_marks(part)}\n")
    elif part.type == "table":
        rows = part.rows[1:]
        if part.key_rows and not everything:
            rows = [part.rows[row] for row in part.key_rows if row]
        print_table("", part.rows[0], rows)
        for figure in part.figures:
            show_text(f"{figure.tag}  {figure.caption}")
        rows_left = len(part.rows) - 1 - len(rows)
        show_text(f"{f'({rows_left} more rows: --all) ' if rows_left else ''}{_marks(part)}\n")
    else:
        show_text(f"{part.tag}  {part.caption} {_marks(part)}{' (chosen by Inset)' if part.added else ''}\n")


def _marks(part: Part) -> str:
    return "".join(f"[{n}]" for n in part.citations)
