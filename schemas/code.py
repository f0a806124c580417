"""Code in running text: between fences, as in Markdown (CommonMark 0.31, 4.5), with its line breaks and indents."""

import re
from collections.abc import Iterator

_FENCED = re.compile(r"^(?P<fence>`{3,})\n(?P<code>.*?)\n(?P=fence)$", re.DOTALL | re.MULTILINE)
_TICKS = re.compile(r"`{3,}")


def fenced(code: str) -> str:
    """Return code between fences that are longer than any in it."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in _TICKS.findall(code))])
    return f"{fence}\n{code}\n{fence}"


def split_fenced(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, each with whether it is code, without its fences; blank ones of other text are left out."""
    end = 0
    for fenced_code in _FENCED.finditer(text):
        if before := text[end : fenced_code.start()].strip():
            yield before, False
        yield fenced_code["code"], True
        end = fenced_code.end()
    if trailing_text := text[end:].strip():
        yield trailing_text, False
