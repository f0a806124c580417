"""Whether a corpus is in languages that its text model knows, and what to set where it isn't."""

from backends.models.registry import TEXT_EMBEDDERS
from backends.models.text_languages import MULTILINGUAL
from pipeline.corpus.workspace import Workspace
from schemas.versions import Counts

LARGELY = 0.2
"""Share of a corpus's documents from which on it is worth another model; below, a few cited works may be in any language."""


def known_languages(workspace: Workspace) -> frozenset[str] | None:
    """Return the languages that the corpus's text model knows; None where that isn't known here."""
    return TEXT_EMBEDDERS.of(workspace.corpus.embeddings).languages


def unknown_languages(workspace: Workspace, counts: Counts) -> str | None:
    """Say that a version is largely in languages that the corpus's text model doesn't know, and what to set.

    Args:
        workspace: The corpus.
        counts: Of the version.

    Returns:
        One line for people; None where there is nothing to say.
    """
    known = known_languages(workspace)
    if known is None:
        return None
    foreign = {name: count for name, count in counts.documents_by_language.items() if name not in known}
    total = sum(foreign.values())
    if total < LARGELY * max(counts.documents, 1):
        return None
    named = ", ".join(f"{count} in {name}" for name, count in sorted(foreign.items(), key=lambda one: (-one[1], one[0])))
    model = workspace.corpus.embeddings.text
    return (
        f"of {counts.documents} documents {total} are in languages that the text model {model!r} doesn't know, since it knows "
        f"{', '.join(sorted(known))} alone: {named}; bm25 finds their words, dense and hybrid find less than they could; set "
        f"embeddings.text to a multilingual model, such as {MULTILINGUAL}, with its revision"
    )
