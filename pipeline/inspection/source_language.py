"""Which packaged text model a new corpus starts with."""

from backends.models.language import Py3LangId
from backends.stores.sources import open_source
from pipeline.corpus.languages import LARGELY
from schemas.corpus import ParseOptions
from schemas.errors import InsetError
from schemas.models import MINILM, MULTILINGUAL
from tasks.enriching.language import PASSAGES, language_of_texts
from workers.brief_reads import read_samples

SAMPLED = 20
"""Maximum PDFs that are looked at; a second or two."""


def text_model_for(source: str) -> str:
    """Return the text model for the languages of a source: that for English, unless a fifth of a sample or more is in others.

    Where nothing can be read, such as a source that isn't there yet or is on S3, it is the one for English.
    """
    if "://" in source:
        return MINILM
    try:
        names = [file.source for file in open_source(source).files()]
        spread = names[:: -(-len(names) // SAMPLED) or 1]
        texts = read_samples(source, spread, ParseOptions(), pages=PASSAGES)
        detector = Py3LangId()
        languages = [language_of_texts(pages, detector) for pages in texts]
    except (InsetError, ImportError):
        return MINILM
    foreign = sum(language not in {"en", None} for language in languages)
    return MULTILINGUAL if languages and foreign >= LARGELY * len(languages) else MINILM
