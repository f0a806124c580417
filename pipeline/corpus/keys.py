"""Keys of finished work: digests of all that it depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backends.engines.analyser import ANALYSIS_VERSION
from backends.models.languages import DETECTION_VERSION, LEXICON_VERSION
from pipeline.corpus.metric_gates import metric_gates
from pipeline.corpus.prompts import CaptionerInUse
from schemas.corpus import Corpus
from schemas.errors import UserError
from schemas.ids import key, sha256
from schemas.versions import ModelCard, VectorSpace
from tasks.enriching.caption import CAPTION_VERSION
from tasks.enriching.caption_quality import QUALITY_VERSION
from tasks.enriching.chunk import CHUNK_VERSION, PAGES_VERSION
from tasks.enriching.language import LANGUAGE_VERSION
from tasks.enriching.spaces import DEFAULT
from tasks.figures.pixel_rules import SKEW_VERSION
from tasks.reading.structure import STRUCTURE_VERSION
from tasks.reading.text_layers import TEXT_LAYERS_VERSION
from tasks.versions.assemble import ASSEMBLE_VERSION
from tasks.versions.check import CHECK_VERSION
from workers.draw_pages import drawn_key
from workers.parse_shard import attempt_key, parse_key


@dataclass(frozen=True)
class Keys:
    """The key of each kind of finished work of a corpus; ``settings`` digests everything that shapes a version.

    Bounds of gates shape none: what passed stays passed.

    ``drawn`` is None if pages have no rows.
    """

    parse: str
    attempt: str
    recognised: str
    structured: str
    assembled: str
    settings: str
    drawn: str | None = None


def keys_of(
    corpus: Corpus,
    recogniser: ModelCard | None,
    spaces: Mapping[str, VectorSpace],
    captioners: Mapping[str, CaptionerInUse],
) -> Keys:
    """Return the keys of a corpus."""
    parse = parse_key(corpus.parse)
    recognised = key(model=recogniser.model_dump() if recogniser else None, skew=SKEW_VERSION)
    structured = key(
        parse=parse,
        recognised=recognised,
        structure=STRUCTURE_VERSION,
        chunk=CHUNK_VERSION,
        chunks=corpus.chunks.shape(),
        tokens_by=spaces[DEFAULT.name].model.model_dump(),
        **({"text_layers": [TEXT_LAYERS_VERSION, LEXICON_VERSION, DETECTION_VERSION]} if recogniser else {}),
    )
    drawn = drawn_key() if corpus.captions.pages is not None else None
    assembled = key(
        structured=structured,
        captions=_descriptions(corpus, captioners, drawn),
        tags=corpus.tags.model_dump(),
        step=ASSEMBLE_VERSION,
        laws=CHECK_VERSION,
        language=[DETECTION_VERSION, LANGUAGE_VERSION],
        **({"doc_types": [*corpus.doc_types.items()]} if corpus.doc_types else {}),
    )
    # A failed document is worth another try once any step, limit or law changed.
    attempt = key(parse=attempt_key(corpus.parse), assembled=assembled)
    settings = key(
        assembled=assembled,
        attempt=attempt,
        vectors={name: space.key for name, space in spaces.items()},
        index=corpus.index.shape(),
        terms=ANALYSIS_VERSION,
        questions=questions_digest(corpus.questions),
        **(gates.settings(corpus) if (gates := metric_gates(corpus)) is not None else {}),
        **({"answers": [pinned.model_dump() for pinned in corpus.answers]} if corpus.answers else {}),
    )
    return Keys(parse, attempt, recognised, structured, assembled, settings, drawn)


def _descriptions(corpus: Corpus, captioners: Mapping[str, CaptionerInUse], drawn: str | None) -> dict[str, object]:
    """Return everything that descriptions in rows, and rows of pages, depend on beside their document."""
    options = corpus.captions
    pages: dict[str, object] = {} if options.pages is None else {"pages": [options.pages, drawn, PAGES_VERSION]}
    summaries = {} if options.summaries is None else {"summaries": options.summaries}
    return {
        **pages,
        **summaries,
        "step": CAPTION_VERSION,
        "captioner": options.captioner,
        # Of releases that had these keys: finished work keeps its key.
        "by_source": [],
        "corrections": None,
        "models": {name: [captioner.captions.key, captioner.prompt.expected] for name, captioner in captioners.items()},
        "quality": QUALITY_VERSION if captioners else None,
    }


def questions_digest(path: str | None) -> str | None:
    """Digest the golden questions; None if there are none.

    Raises:
        UserError: The file is missing.
    """
    if path is None:
        return None
    try:
        return sha256(Path(path).read_bytes())[:16]
    except OSError as error:
        raise UserError(f"questions: can't read {path}; correct 'questions' in the corpus file, or leave it out") from error
