"""What of a row the embedder and BM25 see."""

from collections.abc import Sequence

from schemas.ids import sha256

EMBED_VERSION = "1"


def search_text(title: str, section_path: Sequence[str], text: str) -> str:
    """Return a row's text with the titles it stands under, so that a passage need not repeat its own subject.

    Args:
        title: The document's title; "" where it has none.
        section_path: Titles of the sections around it, outermost first; the two innermost are used.
        text: The row's text without tags.
    """
    heading = " > ".join(part for part in (title, *section_path[-2:]) if part)
    return f"{heading}\n{text}" if heading else text


def text_id(text: str) -> str:
    """Name a text in the cache of vectors."""
    return sha256(text.encode())[:32]
