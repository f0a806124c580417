"""What each step makes of the example manuals and of a few synthetic ones is what is pinned with the step's version."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import backends.engines.analyser
import backends.pdf
import tasks
from backends.engines.analyser import query_terms, terms
from backends.models.language import Py3LangId
from backends.models.registry import TEXT_EMBEDDERS
from backends.pdf.document import open_document
from backends.pdf.inscribe import Inscription, inscribe
from evaluation.synthetic import PRESETS, synthesize
from ray_jobs.enrich import structure_with
from schemas.corpus import EmbeddingOptions, ParseOptions
from schemas.documents import (
    Chunk,
    LayoutRegion,
    ParsedDocument,
    Recognised,
    RecognisedLine,
    RegionKind,
    Segmented,
    StructuredDocument,
)
from schemas.generation import Description
from schemas.geometry import BBox
from schemas.ids import sha256
from schemas.tags import TagTemplate
from tasks.enriching.caption import describe
from tasks.enriching.caption_quality import flags
from tasks.enriching.chunk import chunk
from tasks.enriching.embed import search_text
from tasks.enriching.language import language_of
from tasks.enriching.page_rows import rows_of_pages, words_of_pages
from tasks.enriching.prompts import Surroundings, presets
from tasks.figures.segment import cut, pictures_to_segment
from tasks.reading.parse import parse
from tasks.reading.recognise import pictures_to_recognise
from tasks.versions.assemble import DocumentPieces
from tasks.versions.check import DocumentIn
from tests.manuals import write_long_table, write_manual, write_scan
from tests.pins import Outputs, Step, check_pins, digest
from tests.versions import assemble, content_conserved, one_figure_a_number, tags_are_placements, tags_resolve

PINS = Path(__file__).parent / "outputs.json"
EXAMPLES = Path(__file__).parents[2] / "examples" / "manuals" / "pdfs"

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
    segmented: tuple[Segmented, ...]
    structured: StructuredDocument
    cut: list[Chunk]
    chunks: list[Chunk]

    @property
    def pieces(self) -> DocumentPieces:
        return DocumentPieces(
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
        yield file.name, file.read_bytes()
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
    segmented = tuple(
        Segmented(figure, tuple(cut(pictures[f"{figure}.png"], _seen(figure, parsed), lambda _name, _data: None)))
        for figure in pictures_to_segment(parsed.placements)
    )
    structured = structure_with(parsed, recognised, segmented)
    count_tokens = TEXT_EMBEDDERS.of(EmbeddingOptions()).token_counter()
    pieces = chunk(structured, count_tokens, max_tokens=MAX_TOKENS)
    chunks = describe(pieces, structured.figures, {}, count_tokens, max_tokens=MAX_TOKENS)
    return _Made(name, pdf, parsed, pictures, recognised, segmented, structured, pieces, chunks)


def _words(figure: str, parsed: ParsedDocument) -> tuple[RecognisedLine, ...]:
    """Return what might be read off a picture: a heading, a paragraph, a caption."""
    picture = next(known for known in parsed.figures if known.figure_id == figure)
    lines = ("1 Setting up the pump", "Turn the valve until it clicks.", "See Figure 1 for the seal.", "Figure 1: The seal")
    tall = picture.height / 20
    boxes = [BBox(0.1 * picture.width, y, 0.7 * picture.width, y + tall) for y in (tall, 3 * tall, 5 * tall, 15 * tall)]
    return tuple(RecognisedLine(box, text, 0.9) for box, text in zip(boxes, lines, strict=True))


def _seen(figure: str, parsed: ParsedDocument) -> list[LayoutRegion]:
    """Return what a layout model might see on the picture of a page: a figure, part of it again, a table, a smudge."""
    picture = next(known for known in parsed.figures if known.figure_id == figure)
    shares = ((0.2, 0.35, 0.8, 0.55), (0.25, 0.36, 0.5, 0.5), (0.1, 0.8, 0.9, 0.95), (0.5, 0.6, 0.52, 0.61))
    kinds = (RegionKind.FIGURE, RegionKind.FIGURE, RegionKind.TABLE, RegionKind.FIGURE)
    wide, tall = picture.width, picture.height
    return [
        LayoutRegion(BBox(x0 * wide, y0 * tall, x1 * wide, y1 * tall), kind, 0.9 - place / 10)
        for place, ((x0, y0, x1, y1), kind) in enumerate(zip(shares, kinds, strict=True))
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[_Made]:
    return [_make(name, pdf) for name, pdf in _pdfs(tmp_path_factory.mktemp("pdfs"))]


def _parse(made: list[_Made]) -> Outputs:
    return {one.name: (digest(one.pdf), digest(one.parsed)) for one in made}


def _segment(made: list[_Made]) -> Outputs:
    return {
        one.name: (digest([one.pictures[f"{page.id}.png"] for page in one.segmented]), digest(one.segmented))
        for one in made
        if one.segmented
    }


def _structure(made: list[_Made]) -> Outputs:
    return {one.name: (digest([one.parsed, one.recognised, one.segmented]), digest(one.structured)) for one in made}


def _chunk(made: list[_Made]) -> Outputs:
    return {one.name: (digest(one.structured), digest(one.cut)) for one in made}


def _caption(made: list[_Made]) -> Outputs:
    return {one.name: (digest([one.structured.figures, one.cut]), digest(one.chunks)) for one in made}


def _pages(made: list[_Made]) -> Outputs:
    found: dict[str, tuple[str, str]] = {}
    for one in made:
        document = one.structured
        pictures = {page.page: f"{page.page:064x}" for page in document.pages}
        words = words_of_pages(document.pages, document.blocks)
        rows = rows_of_pages(document.pages, words, pictures, document.figures)
        found[one.name] = digest([document, pictures]), digest([words, rows])
    return found


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


def _quality(made: list[_Made]) -> Outputs:
    replies = [Description("", text, "model", 1, 0, 0) for text in _REPLIES]
    found: dict[str, tuple[str, str]] = {}
    for name, prompt in presets().items():
        around = Surroundings(words="VALVE 12 34 56", before=made[0].chunks[0].text, page="7")
        judged = [flags(reply, prompt, around, languages=Py3LangId()) for reply in replies]
        found[name] = digest([_REPLIES, prompt, around]), digest(judged)
    return found


def _assemble(made: list[_Made]) -> Outputs:
    rows = assemble([one.pieces for one in made], TEMPLATE, DIGITS)
    return {"all": (digest([one.pieces for one in made]), digest([rows.evidence, rows.placements]))}


def _embed(made: list[_Made]) -> Outputs:
    return {
        one.name: (
            digest([one.structured.title, one.chunks]),
            digest([search_text(one.structured.title, piece.section_path, piece.text) for piece in one.chunks]),
        )
        for one in made
    }


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


def _analysis(made: list[_Made]) -> Outputs:
    texts = [(one.name, "en", piece.text) for one in made for piece in one.chunks]
    texts += [(language, language, text) for language, text in _TEXTS.items()]
    found = [(name, terms(text, language), query_terms(text, [language])) for name, language, text in texts]
    return {"all": (digest(texts), digest(found))}


def _language(made: list[_Made]) -> Outputs:
    detector = Py3LangId()
    return {one.name: (digest(one.chunks), digest(language_of(one.chunks, detector))) for one in made}


def _check(made: list[_Made]) -> Outputs:
    rows = assemble([one.pieces for one in made], TEMPLATE, DIGITS)
    names = {one.parsed.doc_id: one.name for one in made}
    documents = [DocumentIn(one.parsed.doc_id, one.parsed.pages, one.parsed.placements) for one in made]
    found: dict[str, tuple[str, str]] = {}
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
        laid = [[verdict.gate.gate, *((at.doc_id, at.page) for at in verdict.offences)] for verdict in verdicts]
        found[name] = digest([documents, evidence, placements]), digest(laid)
    assert len({judged for _, judged in found.values()}) == len(found), "each damage breaks laws of its own"
    return found


def _thinned(table: pa.Table) -> pa.Table:
    return table.take([place for place in range(table.num_rows) if place % 5])


def _numbered_twice(placements: pa.Table) -> pa.Table:
    column = placements.schema.get_field_index("number")
    numbers = placements.column("number")
    return placements.set_column(
        column, placements.schema.field(column), pc.if_else(pc.is_valid(numbers), "00000001", numbers)
    )


def _inscribe(made: list[_Made]) -> Outputs:
    found: dict[str, tuple[str, str]] = {}
    for one in made:
        if one.name in ("hard.pdf", "manual.pdf", "table.pdf"):
            placements = assemble([one.pieces], TEMPLATE, DIGITS).placements.to_pylist()
            wanted = [Inscription(row["page"], BBox(*row["bbox"]), row["tag"]) for row in placements if row["tag"]]
            found[one.name] = digest([one.pdf, wanted]), digest(inscribe(one.pdf, wanted))
    return found


STEPS = {
    "parse": (_parse, "tasks.reading.parse"),
    "segment": (_segment, "tasks.figures.segment"),
    "structure": (_structure, "tasks.reading.structure"),
    "chunk": (_chunk, "tasks.enriching.chunk"),
    "caption": (_caption, "tasks.enriching.caption"),
    "pages": (_pages, "tasks.enriching.page_rows"),
    "quality": (_quality, "tasks.enriching.caption_quality"),
    "assemble": (_assemble, "tasks.versions.assemble"),
    "embed": (_embed, "tasks.enriching.embed"),
    "language": (_language, "tasks.enriching.language"),
    "analysis": (_analysis, "backends.engines.analyser"),
    "check": (_check, "tasks.versions.check"),
    "inscribe": (_inscribe, "backends.pdf.inscribe"),
}
"""Each step: what it makes, and the module that has its version."""


def _constant(name: str) -> str:
    return f"{name.upper()}_VERSION"


@pytest.mark.parametrize("name", STEPS)
def test_the_output_of_a_step_is_what_is_pinned_with_its_version(
    name: str, made: list[_Made], request: pytest.FixtureRequest
) -> None:
    outputs, module = STEPS[name]
    version = getattr(importlib.import_module(module), _constant(name))
    step = Step(name, version, _constant(name), f"{module.replace('.', '/')}.py")
    found = outputs(made)
    assert found
    check_pins(PINS, step, found, update=request.config.getoption("--update-golden"))


def test_every_step_with_a_version_is_pinned() -> None:
    modules = [
        importlib.import_module(found.name)
        for package in (tasks, backends.pdf)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not found.ispkg
    ]
    modules.append(backends.engines.analyser)
    versions = {(module.__name__, name) for module in modules for name in vars(module) if name.endswith("_VERSION")}
    pinned = {(module, _constant(name)) for name, (_, module) in STEPS.items()}
    assert versions == pinned, "a step's version stands in its own module, and has its outputs pinned above"


def test_what_is_pinned_covers_what_the_steps_tell_apart(made: list[_Made]) -> None:
    """A pin of documents without tables would let a change of tables pass."""
    pieces = [piece for one in made for piece in one.chunks]
    assert {piece.modality for piece in pieces} == {"text", "table", "figure"}
    assert {place.role for one in made for place in one.parsed.placements} >= {"content", "icon", "decorative", "page_scan"}
    assert {place.kind for one in made for place in one.parsed.placements} == {"raster", "vector", "composite", "scan"}
    assert any(page.segments for one in made for page in one.segmented)
