"""Answer the questions about a random document by what Inset reads in it."""

import re
import unicodedata

from bench.random_pages.drawing import Question
from schemas.reports import InspectedDocument

_TAG = re.compile(r"<image:[^<>]*>")
_CROSSED_OUT = re.compile(r"~~.*?~~", re.DOTALL)


def letters(text: str) -> str:
    """Return the letters and digits of a text, as they are compared."""
    decomposed = unicodedata.normalize("NFKD", _TAG.sub("", text)).casefold()
    return "".join(letter for letter in decomposed if letter.isalnum())


class Reading:
    """A document as it is read: its blocks, rows, headings and margins."""

    def __init__(self, document: InspectedDocument) -> None:
        self._document = document
        self._pages = {page.page: page for page in document.pages}
        text = "\n\n".join(page.tagged_text for page in document.pages)
        self._text = " ".join(text.split())
        self._blocks = [letters(block) for block in text.split("\n\n")]
        self._lines = [letters(line) for line in text.split("\n")]
        self._raw_lines = text.split("\n")
        self._code_blocks = [letters(block) for block in re.findall(r"```\n(.*?)```", text, re.DOTALL)]
        self._rows = [row for page in document.pages for table in page.tables for row in table.rows]
        self._words = letters(text)

    def answers(self, question: Question) -> bool:
        """Return whether the reading answers a question."""
        return bool(getattr(self, f"_{question.ask}")(question, letters(question.text)))

    def _whole(self, _question: Question, text: str) -> bool:
        return text in self._blocks

    def _line(self, _question: Question, text: str) -> bool:
        return text in self._lines

    def _heading(self, question: Question, text: str) -> bool:
        return text in [letters(heading.title) for heading in self._pages[question.page].outline]

    def _item(self, _question: Question, text: str) -> bool:
        return any(letters(line) == text and line.strip()[:1] in "•■●◆▪" for line in self._raw_lines)

    def _ticked(self, question: Question, text: str) -> bool:
        line = next((line for line in self._raw_lines if letters(line).endswith(text)), "")
        return line.strip()[:1] in list("☑✓✔☒✗" if question.value else "☐□○")

    def _caption(self, question: Question, text: str) -> bool:
        return text in [letters(figure.caption) for figure in self._pages[question.page].figures]

    def _code(self, question: Question, _text: str) -> bool:
        lines = [letters(line) for line in question.text.split("\n")]
        return any(all(line in block for line in lines) for block in self._code_blocks)

    def _fenced(self, question: Question, _text: str) -> bool:
        lines = [letters(line) for line in question.text.split("\n")]
        return any("".join(lines) == block for block in self._code_blocks)

    def _row(self, question: Question, _text: str) -> bool:
        cells = [letters(cell) for cell in question.text.split(" | ")]
        return any(
            cells == [letters(cell) for cell in row] and (not question.value or any(map(_TAG.search, row)))
            for row in self._rows
        )

    def _near(self, question: Question, text: str) -> bool:
        parts = self._words.split(text)
        return any(part.startswith(letters(question.value)) for part in parts[1:])

    def _pictured(self, question: Question, _text: str) -> bool:
        return bool(_TAG.search(self._pages[question.page].tagged_text))

    def _word(self, question: Question, _text: str) -> bool:
        return question.text in unicodedata.normalize("NFKC", self._text)

    def _struck(self, question: Question, _text: str) -> bool:
        valid = _CROSSED_OUT.sub("", self._text)
        return question.value in valid and question.text not in valid

    def _margin(self, question: Question, text: str) -> bool:
        return text in [letters(line.text) for line in self._pages[question.page].furniture]

    def _absent(self, _question: Question, text: str) -> bool:
        return text not in letters(self._text)

    def _said(self, question: Question, _text: str) -> bool:
        return any(question.text in failure.message for failure in self._document.failures)
