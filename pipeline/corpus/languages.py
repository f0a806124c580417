"""Which text model a corpus starts with, and whether its model knows its languages."""

from backends.models.languages import Py3LangId
from backends.models.registry import TEXT_EMBEDDERS
from backends.stores.sources import open_source
from pipeline.corpus.workspace import Workspace
from schemas.corpus import ParseOptions
from schemas.errors import InsetError
from schemas.formats import Format, format_of
from schemas.models import MINILM, MULTILINGUAL
from schemas.versions import Counts
from tasks.enriching.language import PASSAGES, language_of_texts
from workers.brief_reads import read_samples

LARGELY = 0.2
"""Share of documents in unknown languages above which another model is recommended; a few cited works don't matter."""

SAMPLED = 20
"""Maximum PDFs that are looked at; a second or two."""


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


def text_model_for(source: str) -> str:
    """Return the text model for the languages of a source: that for English, unless a fifth of a sample or more is in others.

    If nothing can be read, such as a source that isn't there yet or is on S3, it is the one for English.
    """
    if "://" in source:
        return MINILM
    try:
        names = [file.source for file in open_source(source).files() if format_of(file.source) is Format.PDF]
        spread = names[:: -(-len(names) // SAMPLED) or 1]
        texts = read_samples(source, spread, ParseOptions(), pages=PASSAGES)
        detector = Py3LangId()
        languages = [language_of_texts(pages, detector) for pages in texts]
    except (InsetError, ImportError):
        return MINILM
    foreign = sum(language not in {"en", None} for language in languages)
    return MULTILINGUAL if languages and foreign >= LARGELY * len(languages) else MINILM
