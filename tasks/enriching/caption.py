"""Put into words what a figure shows, from what the document itself says of it."""

from collections.abc import Sequence


def compose(caption: str, inner_text: str, section_path: Sequence[str]) -> str:
    """Return the ``context`` caption: what the document says of a figure, its section's title and the words inside it.

    Args:
        caption: The caption as printed, or else the step that the figure stands by; "" where there is neither.
        inner_text: Words read inside the figure, by OCR or from a drawing's labels; "" where there are none.
        section_path: Titles of the sections around it, outermost first.

    Returns:
        One text, a part a line, empty parts left out; never empty, so that every figure can be found.
    """
    section = section_path[-1] if section_path else ""
    parts = [part for part in (caption.strip(), section.strip(), " ".join(inner_text.split())) if part]
    return "\n".join(parts) or "Figure without caption or words"
