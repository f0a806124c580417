"""What each step makes of the example manuals and of a few synthetic ones is what is pinned with the step's version."""

import ast
import importlib.metadata
import io
import pkgutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pymupdf
import pytest
from PIL import Image, ImageDraw

from backends.engines.analyser import query_terms, terms
from backends.models.languages import Py3LangId, Simplemma
from backends.models.registry import TEXT_EMBEDDERS
from backends.pdf.document import open_document
from backends.pdf.inscribe import Inscription, inscribe
from backends.stores.object_store import open_store
from ray_jobs.enrich import structure_with
from schemas.corpus import ParseOptions
from schemas.corpus.models import EntryKind
from schemas.documents import (
    Chunk,
    Kind,
    Page,
    ParsedDocument,
    Placement,
    Recognised,
    RecognisedLine,
    Role,
    StructuredDocument,
)
from schemas.geometry import BBox
from schemas.ids import document_file, figure_file, sha256
from schemas.models import MINILM, Description, Flag, ModelName
from schemas.tags import TagTemplate
from tasks.enriching.caption import (
    DescriptionResult,
    DescriptionResults,
    as_one_line,
    compose,
    describe,
    description_result,
    description_subject,
    fit_summaries,
)
from tasks.enriching.caption_quality import flags
from tasks.enriching.chunk import PageWords, chunk, rows_of_pages, words_of_pages
from tasks.enriching.language import language_of
from tasks.enriching.prompts import Prompt, Surroundings, presets, surroundings, surroundings_of_page, surroundings_of_text
from tasks.enriching.spaces import EMBED_VERSION, SPACES, RowText, search_text
from tasks.figures.pixel_rules import straightened
from tasks.reading.parse import parse
from tasks.reading.recognise import pictures_to_recognise
from tasks.reading.text_layers import layered_pages, pictures_to_compare, reason_to_replace_layer, without_layer
from tasks.versions.assemble import DocumentChunks
from tasks.versions.check import DocumentContent
from tests.golden.models import MODELS
from tests.manuals import picture, sentence, write_long_table, write_manual, write_scan
from tests.pins import Outputs, Step, check_pins, digest
from tests.synthetic import PRESETS, synthesize
from tests.versions import assemble, content_conserved, one_figure_a_number, tags_are_placements, tags_resolve
from workers.draw_pages import keep_pictures

PINS = Path(__file__).parent / "outputs.json"
REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples" / "manuals" / "pdfs"

FIRST_PAGES = 16
"""Pages of an example manual that are read."""
MAX_TOKENS = 220
TEMPLATE, DIGITS = TagTemplate(), 8


@dataclass(frozen=True)
class _Made:
    """A document on its way through the steps. What models would read off its pictures stands in as fixed words."""

    name: str
    pdf: bytes
    parsed: ParsedDocument
    pictures: dict[str, bytes]
    recognised: tuple[Recognised, ...]
    structured: StructuredDocument
    cut: list[Chunk]
    chunks: list[Chunk]
    words: dict[int, PageWords]
    pages: list[Chunk]
    wordings: DescriptionResults
    fitted: DescriptionResults
    described: list[Chunk]

    @property
    def uncomposed(self) -> list[Chunk]:
        """Its rows, those of its pages included, before anything is said of figures and pages."""
        return [*self.cut, *self.pages]

    @property
    def pieces(self) -> DocumentChunks:
        return DocumentChunks(
            doc_id=self.parsed.doc_id,
            title=self.structured.title,
            sources=(self.name,),
            chunks=self.chunks,
            figures=self.structured.pictures,
            placements=self.structured.placements,
            captions={figure.placement.order: figure.caption for figure in self.structured.figures},
        )


def _pdfs(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(EXAMPLES.glob("*.pdf")):
        with pymupdf.open(file) as manual:
            manual.select(range(FIRST_PAGES))
            yield file.name, manual.tobytes(no_new_id=True)
    for preset in ("hard", "pictures"):
        yield f"{preset}.pdf", synthesize(preset, seed=2, pages=6, options=PRESETS[preset]).pdf
    yield "table.pdf", write_long_table(folder / "table.pdf").read_bytes()
    yield "manual.pdf", write_manual(folder / "manual.pdf", "pump").read_bytes()
    yield "scan.pdf", write_scan(folder / "scan.pdf", "winch").read_bytes()


def _make(name: str, pdf: bytes) -> _Made:
    pictures: dict[str, bytes] = {}
    parsed = parse(open_document(pdf), sha256(pdf), ParseOptions(), keep_figure=pictures.__setitem__)
    labelled = {line.inside for line in parsed.lines if line.inside is not None}
    to_recognise = pictures_to_recognise(parsed.placements, labelled)
    recognised = tuple(Recognised(figure, _words(figure, parsed)) for figure in to_recognise)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        for file, picture in pictures.items():
            store.put(f"figures/{file}", picture)
        structured = structure_with(parsed, recognised, store)
    count_tokens = TEXT_EMBEDDERS.find(ModelName(MINILM)).token_counter()
    pieces = chunk(structured, count_tokens, max_tokens=MAX_TOKENS)
    chunks = describe(pieces, structured.figures, {}, count_tokens, max_tokens=MAX_TOKENS)
    words = words_of_pages(structured.pages, structured.blocks)
    pages = rows_of_pages(structured.pages, words, _pictures_of(structured), structured.figures)
    wordings = _wordings([*pieces, *pages])
    fitted = fit_summaries(wordings, count_tokens, max_tokens=MAX_TOKENS)
    composed = describe([*pieces, *pages], structured.figures, fitted, count_tokens, max_tokens=MAX_TOKENS)
    return _Made(
        *(name, pdf, parsed, pictures, recognised, structured, pieces, chunks),
        *(words, pages, wordings, fitted, composed),
    )


def _pictures_of(document: StructuredDocument) -> dict[int, str]:
    return {page.page: f"{page.page:064x}" for page in document.pages}


_DESCRIPTIONS = (
    "The picture shows a pump with two valves, seen from the side.",
    "",
    "The first line.\n\n  The second one  holds [figure 12345678] and <image: filename(23523473.png)>.",
    " ".join(f"Step {number}: turn valve {number}, then check its seal for {number} minutes." for number in range(60)),
)
"""What models and people may have written of a figure, a page or a text; the last one is longer than a row may be."""


def _wordings(rows: list[Chunk]) -> DescriptionResults:
    names = list(dict.fromkeys(description_subject(row) for row in rows))
    flags = ((), (Flag.NOT_DESCRIBED,))
    return {
        name: DescriptionResult("vlm" if text else "context", text, flags[not text])
        for index, name in enumerate(names)
        for text in [_DESCRIPTIONS[index % (len(_DESCRIPTIONS) + 1) - 1]]
        if index % (len(_DESCRIPTIONS) + 1)  # nobody was asked about the others
    }


def _words(figure: str, parsed: ParsedDocument) -> tuple[RecognisedLine, ...]:
    """Return what might be read off a picture: a heading, a paragraph, a caption."""
    picture = next(parsed_figure for parsed_figure in parsed.figures if parsed_figure.figure_id == figure)
    lines = ("1 Setting up the pump", "Turn the valve until it clicks.", "See Figure 1 for the seal.", "Figure 1: The seal")
    tall = picture.height / 20
    boxes = [BBox(0.1 * picture.width, y, 0.7 * picture.width, y + tall) for y in (tall, 3 * tall, 5 * tall, 15 * tall)]
    return tuple(RecognisedLine(box, text, 0.9) for box, text in zip(boxes, lines, strict=True))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[_Made]:
    return [_make(name, pdf) for name, pdf in _pdfs(tmp_path_factory.mktemp("pdfs"))]


def _parse(documents: list[_Made]) -> Outputs:
    return {document.name: (digest(document.pdf), digest(document.parsed)) for document in documents}


def _skew(_made: list[_Made]) -> Outputs:
    outputs: dict[str, tuple[str, str]] = {}
    for degrees in (0.2, 3.0, -5.0):
        page = Image.new("L", (850, 1100), 255)
        for row in range(12):
            ImageDraw.Draw(page).rectangle((80, 100 + 60 * row, 400 + 25 * row, 112 + 60 * row), fill=30)
        buffer = io.BytesIO()
        page.rotate(-degrees, expand=True, fillcolor=255).save(buffer, "PNG")
        straight = straightened(buffer.getvalue())
        boxes = [straight.as_given(BBox(80, 100, 400, 112))] if straight is not None else []
        outputs[f"{degrees} degrees"] = digest(degrees), digest([straight, boxes])
    return outputs


def _structure(documents: list[_Made]) -> Outputs:
    return {
        document.name: (digest([document.parsed, document.recognised]), digest(document.structured))
        for document in documents
    }


def _text_layers(documents: list[_Made]) -> Outputs:
    """Each document as a scan with a text layer, once as it is, and once with letters confused."""
    lexicon, outputs = Simplemma(), dict[str, tuple[str, str]]()
    for document in documents:
        placements = [
            Placement(page.page, 0, _WHOLE, f"{page.page:064x}", Kind.SCAN, Role.BACKGROUND, "")
            for page in document.parsed.pages
        ]
        read = {
            placement.figure_id or "": [
                RecognisedLine(line.bbox, line.text, 0.9) for line in document.parsed.lines if line.page == placement.page
            ]
            for placement in placements
        }
        for name, confused in (("as it is", ""), ("confused", "aeilm")):
            lines = tuple(
                line._replace(text=line.text.translate({ord(letter): "0" for letter in confused}))
                for line in document.parsed.lines
            )
            layered = replace(document.parsed, placements=tuple(placements), lines=lines, figures=(), tables=())
            pages = layered_pages(layered.placements)
            sample = pictures_to_compare(pages, lines, lexicon)
            fault = reason_to_replace_layer(pages, lines, {picture: read[picture] for picture in sample}, lexicon)
            chosen = layered if fault is None else without_layer(layered, sample, fault)
            outputs[f"{document.name}, {name}"] = digest([layered, [*read.items()]]), digest([sample, fault, chosen])
    return outputs


_WHOLE = BBox(0, 0, 595, 842)


def _chunk(documents: list[_Made]) -> Outputs:
    return {document.name: (digest(document.structured), digest(document.cut)) for document in documents}


def _caption(documents: list[_Made]) -> Outputs:
    outputs = {
        document.name: (digest([document.structured.figures, document.cut]), digest(document.chunks))
        for document in documents
    }
    for document in documents:
        input_digest = digest([document.structured.figures, document.uncomposed, _plain(document.wordings)])
        outputs[f"{document.name}, described"] = input_digest, digest([document.described, _plain(document.fitted)])
    (page,) = rows_of_pages([_EMPTY], {1: PageWords(0, (), "", "")}, {1: "0" * 64}, [])
    blank = describe([page], [], {}, lambda texts: [1] * len(texts), max_tokens=MAX_TOKENS)
    outputs["a page without words"] = digest(page), digest(blank)
    parts = [(caption, *surrounding) for caption in ("", "Fig. 1: A pump") for surrounding in _AROUND_A_FIGURE]
    outputs["figures"] = digest(parts), digest([compose(*part) for part in parts])
    around = Surroundings(words="VALVE 12 34 56", page="7")
    judged = {
        name: [flags(reply, prompt, around, languages=Py3LangId()) for reply in _made_of()] for name, prompt in _asked()
    }
    worded = {
        name: [
            description_result("vlm", kind, prompt, around, reply, Py3LangId())
            for reply in (*_made_of(), None)
            for kind in (EntryKind.VLM, EntryKind.LLM)
        ]
        for name, prompt in _asked()
    }
    outputs["what of a reply is used"] = digest([_REPLIES, judged]), digest(worded)
    return outputs


def _plain(wordings: DescriptionResults) -> dict[str, DescriptionResult]:
    return {f"{subject} {name}": wording for (subject, name), wording in wordings.items()}


_EMPTY = Page(1, 595.0, 842.0, 0, 0)
_AROUND_A_FIGURE = (
    ("", "", ()),
    ("It shows a pump.\nFrom [figure 12345678].", "", ("Parts", "Pumps")),
    ("", " MAX\n6 bar ", ("Pumps",)),
)


def _asked() -> list[tuple[str, Prompt]]:
    return [*presets().items()]


def _made_of() -> list[Description]:
    return [Description("", text, "model", 1, 0, 0) for text in _REPLIES]


def _prompt(documents: list[_Made]) -> Outputs:
    full = Surroundings(
        caption="Figure 3: The  pressure\nrelief valve",
        section="Maintenance > Valves",
        before="Close the inlet first.",
        after="Then turn the screw (4)\nby a quarter; it costs $5.",
        words="MAX 6 bar 4",
        title="Water pump WP-200",
        page="17",
        language="de",
    )
    arounds = [full, Surroundings(), replace(full, caption="", language=""), Surroundings(words="MAX", section="Valves")]
    outputs = {
        name: (digest([prompt.model_dump(), arounds]), digest([prompt.render(item) for item in arounds]))
        for name, prompt in _asked()
    }
    for item in documents:
        title, chunks = item.structured.title, item.chunks
        of_figures = [surroundings(title, figure, chunks, language="de") for figure in item.structured.figures]
        of_pages = [surroundings_of_page(title, words) for words in item.words.values()]
        of_texts = [surroundings_of_text(title, piece) for piece in chunks if piece.figure_id is None]
        input_digest = digest([title, item.structured.figures, [*item.words.items()], chunks])
        outputs[item.name] = input_digest, digest([of_figures, of_pages, of_texts])
    return outputs


def _pages(documents: list[_Made]) -> Outputs:
    return {
        document.name: (
            digest([document.structured, _pictures_of(document.structured)]),
            digest([document.words, document.pages]),
        )
        for document in documents
    }


def _pictures(folder: Path) -> Outputs:
    """Pages as the store keeps their pictures; another release of PyMuPDF draws them under another key."""
    pdf, store = _sheets(), open_store(str(folder))
    doc_id = sha256(pdf)
    store.put(document_file(doc_id), pdf)
    pages = [(doc_id, document_file(doc_id), page) for page in range(1, 6)]
    drawn = {
        page_picture.page: page_picture
        for page_picture in keep_pictures(pages, store_address=str(folder), limits=ParseOptions(), passwords=())
    }
    input_digest = digest([pdf, importlib.metadata.version("pymupdf")])
    outputs: dict[str, tuple[str, str]] = {}
    for page, page_picture in sorted(drawn.items()):
        size = page_picture.figure_id and Image.open(io.BytesIO(store.get(figure_file(page_picture.figure_id)))).size
        outputs[f"page {page}"] = input_digest, digest([page_picture, size])
    return outputs


def _sheets() -> bytes:
    """Write a page with words and a picture, one with nothing on it, one with a dot alone, one that is turned, and a poster."""
    with pymupdf.open() as document:
        for width, height, side in ((400, 300, 90), (300, 200, 0), (300, 200, 1), (200, 300, 80), (2400, 1700, 300)):
            page = document.new_page(width=width, height=height)
            if side:
                page.draw_rect((20, 30, 20 + side, 30 + side), color=None, fill=(0.1, 0.5, 0.7))
        document[0].insert_textbox((150, 30, 380, 200), " ".join(map(sentence, range(4))), fontsize=11)
        document[0].insert_image((150, 200, 270, 280), stream=picture(3))
        document[3].set_rotation(90)
        return bytes(document.tobytes(no_new_id=True))


_REPLIES = (
    "The picture shows a pump with two valves and a red handle, seen from the side.",
    "Das Bild zeigt eine Pumpe mit zwei Ventilen und einem roten Griff, von der Seite gesehen, und eine Leitung zum Tank.",
    "I'm sorry, but I can't help with that image.",
    "the valve and the pump and " * 30,
    "## A pump\n\n- **valve**\n- handle",
    "Pump.",
    "",
)
"""What models may answer, good and bad."""


def _quality(documents: list[_Made]) -> Outputs:
    replies = _made_of()
    outputs: dict[str, tuple[str, str]] = {}
    for name, prompt in presets().items():
        around = Surroundings(words="VALVE 12 34 56", before=documents[0].chunks[0].text, page="7")
        judged = [flags(reply, prompt, around, languages=Py3LangId()) for reply in replies]
        outputs[name] = digest([_REPLIES, prompt.model_dump(), around]), digest(judged)
    return outputs


def _assemble(documents: list[_Made]) -> Outputs:
    # Of a few digits many figures share a number, which is widened then: that is up to all documents of a version.
    versions = {document.name: ([document.pieces], DIGITS) for document in documents}
    versions |= {
        "all": ([document.pieces for document in documents], DIGITS),
        "all, short numbers": ([document.pieces for document in documents], 2),
    }
    outputs: dict[str, tuple[str, str]] = {}
    for name, (pieces, digits) in versions.items():
        rows = assemble(pieces, TEMPLATE, digits)
        outputs[name] = digest([pieces, digits] if digits != DIGITS else pieces), digest([rows.evidence, rows.placements])
    for document in documents:
        labels = [f"A-{page.page}" for page in document.structured.pages]
        worded = replace(document.pieces, chunks=document.described, wordings=document.fitted, language="en", labels=labels)
        rows = assemble([worded], TEMPLATE, DIGITS)
        input_digest = digest([replace(worded, wordings={}), _plain(document.fitted)])
        outputs[f"{document.name}, described"] = input_digest, digest([rows.evidence, rows.placements])
    return outputs


def _passages(document: _Made) -> list[RowText]:
    texts = {name: as_one_line(wording.text) for name, wording in document.fitted.items()}
    return [
        RowText(
            *(row.modality, document.structured.title, row.section_path, row.text, row.figure_id),
            description=texts.get(description_subject(row)),
            caption=row.caption,
            tagged_text=row.tagged_text,
        )
        for row in document.described
    ]


def _embed(documents: list[_Made]) -> Outputs:
    all_outputs = {
        document.name: (
            digest([document.structured.title, document.chunks]),
            digest([search_text(document.structured.title, piece.section_path, piece.text) for piece in document.chunks]),
        )
        for document in documents
    }
    for name in _OF_WORDS:
        all_outputs |= {f"{key}, {name}": outputs for key, outputs in _contents(documents, name).items()}
    return all_outputs


_OF_WORDS = ("text", "tables")
"""Spaces whose version is that of ``embed``."""


def _contents(documents: list[_Made], name: str) -> dict[str, tuple[str, str]]:
    outputs: dict[str, tuple[str, str]] = {}
    for document in documents:
        contents = [SPACES[name].content(row) for row in _passages(document)]
        outputs[document.name] = (
            digest(_passages(document)),
            digest([content and [content, content.id] for content in contents]),
        )
    return outputs


_TEXTS = {
    "en": "Pumps WCP-3200-B (M3×12) don't start: see /etc/fstab, max_open_files, 4.7.2, C++ and 1,000 open-source naïveté.",
    "de": "Druckerwarteschlangen, Sicherheitsventile und Netzwerkschnittstellenkarten auf Straßen prüfen",
    "nl": "veiligheidskleppen van besturingssystemen",
    "sv": "säkerhetsventiler i operativsystem",
    "da": "sikkerhedsventiler i styresystemer",
    "nb": "sikkerhetsventiler i operativsystemer",
    "fr": "l’élément réglé des chevaux d'aujourd'hui",
    "ru": "Установка на жёсткие диски мой interrupts",
    "ar": "تثبيت البرامج على الأقراص الصلبة",
    "hi": "प्रिंटर की सेटिंग्स बदलें",
    "zh": "请更换冷却水泵USB接口 interrupts",
    "ja": "プリンターの設定を変更するｹｰﾌﾞﾙ",
    "ko": "프린터를 설치하기",
    "th": "ปิดเครื่องพิมพ์",
}


def _analysis(documents: list[_Made]) -> Outputs:
    texts = {document.name: ("en", [piece.text for piece in document.chunks]) for document in documents}
    texts |= {language: (language, [text]) for language, text in _TEXTS.items()}
    return {
        name: (
            digest([language, some]),
            digest([(terms(text, language), query_terms(text, [language])) for text in some]),
        )
        for name, (language, some) in texts.items()
    }


def _language(documents: list[_Made]) -> Outputs:
    detector = Py3LangId()
    return {
        document.name: (digest(document.chunks), digest(language_of(document.chunks, detector))) for document in documents
    }


def _check(all_documents: list[_Made]) -> Outputs:
    rows = assemble([document.pieces for document in all_documents], TEMPLATE, DIGITS)
    names = {document.parsed.doc_id: document.name for document in all_documents}
    documents = [
        DocumentContent(document.parsed.doc_id, document.parsed.pages, document.parsed.placements)
        for document in all_documents
    ]
    outputs: dict[str, tuple[str, str]] = {}
    for name, evidence, placements in (
        ("whole", rows.evidence, rows.placements),
        ("without rows", _thinned(rows.evidence), rows.placements),
        ("without placements", rows.evidence, _thinned(rows.placements)),
        ("numbered twice", rows.evidence, _numbered_twice(rows.placements)),
    ):
        verdicts = [
            *content_conserved(documents, evidence, placements, names),
            tags_are_placements(evidence, placements, TEMPLATE, names),
            tags_resolve(evidence, placements, TEMPLATE, names),
            one_figure_a_number(placements, names),
        ]
        laid = [[verdict.gate.gate, *((at.doc_id, at.page) for at in verdict.violations)] for verdict in verdicts]
        outputs[name] = digest([documents, evidence, placements]), digest(laid)
    assert len({judged for _, judged in outputs.values()}) == len(outputs), "each damage breaks laws of its own"
    return outputs


def _thinned(table: pa.Table) -> pa.Table:
    return table.take([index for index in range(table.num_rows) if index % 5])


def _numbered_twice(placements: pa.Table) -> pa.Table:
    column = placements.schema.get_field_index("number")
    numbers = placements.column("number")
    return placements.set_column(
        column, placements.schema.field(column), pc.if_else(pc.is_valid(numbers), "00000001", numbers)
    )


def _inscribe(documents: list[_Made]) -> Outputs:
    outputs: dict[str, tuple[str, str]] = {}
    for document in documents:
        if document.name in ("hard.pdf", "manual.pdf", "table.pdf"):
            placements = assemble([document.pieces], TEMPLATE, DIGITS).placements.to_pylist()
            inscriptions = [Inscription(row["page"], BBox(*row["bbox"]), row["tag"]) for row in placements if row["tag"]]
            outputs[document.name] = digest([document.pdf, inscriptions]), digest(inscribe(document.pdf, inscriptions))
    return outputs


STEPS: dict[str, tuple[Callable[[list[_Made]], Outputs], str]] = {
    "parse": (_parse, "tasks.reading.parse:PARSE_VERSION"),
    "skew": (_skew, "tasks.figures.pixel_rules:SKEW_VERSION"),
    "structure": (_structure, "tasks.reading.structure:STRUCTURE_VERSION"),
    "text layers": (_text_layers, "tasks.reading.text_layers:TEXT_LAYERS_VERSION"),
    "chunk": (_chunk, "tasks.enriching.chunk:CHUNK_VERSION"),
    "prompt": (_prompt, "tasks.enriching.prompts:PROMPT_VERSION"),
    "caption": (_caption, "tasks.enriching.caption:CAPTION_VERSION"),
    "pages": (_pages, "tasks.enriching.chunk:PAGES_VERSION"),
    "quality": (_quality, "tasks.enriching.caption_quality:QUALITY_VERSION"),
    "assemble": (_assemble, "tasks.versions.assemble:ASSEMBLE_VERSION"),
    "embed": (_embed, "tasks.enriching.spaces:EMBED_VERSION"),
    "language": (_language, "tasks.enriching.language:LANGUAGE_VERSION"),
    "analysis": (_analysis, "backends.engines.analyser:ANALYSIS_VERSION"),
    "check": (_check, "tasks.versions.check:CHECK_VERSION"),
    "inscribe": (_inscribe, "backends.pdf.inscribe:INSCRIBE_VERSION"),
} | {
    f"space {name}": (lambda made, name=name: _contents(made, name), f"tasks.enriching.spaces:{name.upper()}.version")
    for name in SPACES
    if name not in _OF_WORDS
}
"""Each step: what it makes, and where its version is."""

PICTURES = "workers.draw_pages:PICTURES_VERSION"

OF_NO_STEP = {
    "backends.stores.document_files:FILES_VERSION": "how a document's file is laid out; it is in the key of a parse",
    "query_service.app:API_VERSION": "goes up with the API, which openapi.json pins",
    "bench.browse:VERSION": "the name of a made-up version",
    "query_service.requests:A_VERSION": "the name of a version in examples",
    "query_service.requests:VERSION": "how the name of a version is spelled",
    "tasks.reading.correct:CORRECT_VERSION": "what corrections by hand change; it is in the keys of corrected documents alone",
    "schemas.ids:FIRST_VERSION": "what other versions begin with",
    "schemas.stages:ON_A_VERSION": "stages",
    "workers.convert:CONVERT_VERSION": "how documents become PDFs, which differs by release; it is in their names",
}
"""Constants that are called a version and are none of a step's output, each with what it is."""


def _hold(name: str, constant: str, outputs: Outputs, request: pytest.FixtureRequest) -> None:
    module, _, attribute = constant.partition(":")
    file = module.replace(".", "/")
    file = f"{file}/__init__.py" if (REPOSITORY / file).is_dir() else f"{file}.py"
    assert outputs
    step = Step(name, pkgutil.resolve_name(constant), attribute, file)
    check_pins(PINS, step, outputs, update=request.config.getoption("--update-golden"))


@pytest.mark.parametrize("name", STEPS)
def test_the_output_of_a_step_is_what_is_pinned_with_its_version(
    name: str, made: list[_Made], request: pytest.FixtureRequest
) -> None:
    outputs, constant = STEPS[name]
    _hold(name, constant, outputs(made), request)


def test_the_pictures_of_pages_are_what_is_pinned_with_their_version(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    _hold("pictures", PICTURES, _pictures(tmp_path), request)


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_makes_is_what_is_pinned_with_its_version(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    outputs, constant = MODELS[name]
    _hold(name, constant, outputs(tmp_path), request)


def test_every_version_is_pinned_or_is_none_of_a_step() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    roots = project["tool"]["importlinter"]["root_packages"]
    constants = {
        f"{'.'.join(file.relative_to(REPOSITORY).with_suffix('').parts).removesuffix('.__init__')}:{name}"
        for root in roots
        for file in (REPOSITORY / root).rglob("*.py")
        for name in _constants(ast.parse(file.read_text(encoding="utf-8")))
        if name.endswith("VERSION")
    }
    pinned = {constant for _, constant in [*STEPS.values(), *MODELS.values()]} | {PICTURES}
    of_modules = {constant for constant in pinned if "." not in constant.partition(":")[2]}
    assert constants == of_modules | OF_NO_STEP.keys(), "pin what it is the version of, or say in OF_NO_STEP what it is"
    assert {f"tasks.enriching.spaces:{name.upper()}.version" for name in SPACES if name not in _OF_WORDS} <= pinned
    assert {SPACES[name].version for name in _OF_WORDS} == {EMBED_VERSION}


def _constants(module: ast.Module) -> Iterator[str]:
    """Yield the names that a module, or a class in it, assigns."""
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[*targets]):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def test_what_is_pinned_covers_what_the_steps_tell_apart(made: list[_Made]) -> None:
    """A pin of documents without tables would let a change of tables pass."""
    pieces = [piece for document in made for piece in document.chunks]
    assert {piece.modality for piece in pieces} == {"text", "table", "figure"}
    assert {placement.role for document in made for placement in document.parsed.placements} >= {
        "content",
        "icon",
        "decorative",
        "page_scan",
    }
    assert {placement.kind for document in made for placement in document.parsed.placements} == {
        "raster",
        "vector",
        "composite",
        "scan",
    }
