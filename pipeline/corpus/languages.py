"""Whether the text model of a corpus knows its languages, and those of questions."""

from backends.models.languages import Py3LangId
from backends.models.registry import TEXT_EMBEDDERS
from pipeline.corpus.workspace import Workspace
from schemas.models import MULTILINGUAL, ModelName
from schemas.versions import Counts

LARGELY = 0.2
"""Share of documents in unknown languages above which another model is recommended; a few cited works don't matter."""

LEAST_CERTAIN = 0.5
"""Probability of a question's language from which it counts: 0 of 670 questions in English have another, 136 of 137 others do."""


def question_language(question: str, text_model: ModelName) -> str | None:
    """Return the language of a question if the text model doesn't know it; else None."""
    model_languages = TEXT_EMBEDDERS.find(text_model).languages
    if model_languages is None or not question:
        return None
    language, certainty = next(iter(Py3LangId().probabilities(question).items()))
    return language if certainty >= LEAST_CERTAIN and language not in model_languages else None


def unknown_languages(workspace: Workspace, counts: Counts) -> str | None:
    """Return advice in one line if the text model doesn't know the languages of a fifth of a version or more; else None."""
    model_languages = TEXT_EMBEDDERS.find(workspace.corpus.embedding_models.text_model).languages
    if model_languages is None:
        return None
    foreign = {name: count for name, count in counts.documents_by_language.items() if name not in model_languages}
    total = sum(foreign.values())
    if total < LARGELY * max(counts.documents, 1):
        return None
    language_counts = ", ".join(
        f"{count} in {name}" for name, count in sorted(foreign.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    model = workspace.corpus.embedding_models.text.model
    return (
        f"{total} of {counts.documents} documents are in languages that the text model {model!r} doesn't know: "
        f"{language_counts}; it knows only {', '.join(sorted(model_languages))}; bm25 finds their words, dense and hybrid find "
        f"less than they could; set embeddings.text to {MULTILINGUAL}, which is packaged, or to another multilingual model with "
        "its revision"
    )
