import io
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from schemas.documents import Block, BlockKind, Kind, Page, PlacedFigure, Placement, Role
from schemas.errors import FailureCode
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.geometry import BBox
from schemas.ids import figure_id
from schemas.tags import PAPER, TagTemplate, escape, placeholder
from schemas.versions import GateResult, LedgerRow, Plan, PlannedDocument, PlanSummary, Status
from tasks.check import (
    DocumentIn,
    content_conserved,
    documents_conserved,
    figures_are_their_names,
    one_figure_a_number,
    quarantine_ceiling,
    rows_a_page,
    rows_not_lost,
    tags_are_placements,
    tags_resolve,
    taken_over,
)
from tasks.neighbours import pictures_by_their_text, read_with_neighbours

TEMPLATE = TagTemplate()
DOC, OTHER = "0" * 64, "1" * 64


def png(color: str, kind: str = "PNG", mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (3, 2), color).convert(mode).save(file, kind)
    return file.getvalue()


def named(color: str) -> str:
    return figure_id(3, 2, Image.new("RGB", (3, 2), color).tobytes())


RED, BLUE = named("red"), named("blue")


def placement(figure: str | None, number: str | None, doc_id: str = DOC) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "page": 1,
        "order": 0,
        "bbox": [0.0, 0.0, 1.0, 1.0],
        "figure_id": figure,
        "number": number,
        "tag": None if number is None else TEMPLATE.write(number),
        "ext": "png",
        "kind": "raster",
        "role": "decorative" if number is None else "content",
        "reason": "",
        "caption": "",
    }


def placements(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=PLACEMENTS)


def evidence(*rows: tuple[str, str], refs: list[str] | None = None, doc_id: str = DOC) -> pa.Table:
    """Rows of one document as ``(modality, tagged_text)``."""
    written = [
        {
            "evidence_id": f"row-{place}",
            "modality": modality,
            "doc_id": doc_id,
            "sources": ["a.pdf"],
            "page": 1,
            "bbox": [0.0, 0.0, 1.0, 1.0],
            "regions": [],
            "order": place,
            "section_path": [],
            "title": "",
            "text": "",
            "tagged_text": text,
            "figure_refs": refs or [],
            "caption": "",
        }
        for place, (modality, text) in enumerate(rows)
    ]
    return pa.Table.from_pylist(written, schema=EVIDENCE)


PLACED = placements(
    placement(RED, "00000001"), placement(BLUE, "00000002"), placement(BLUE, "00000002"), placement(None, None)
)
WRITTEN = evidence(
    ("text", "see <image:00000001.png> and <image:00000002.png>"),
    ("table", "| <image:00000002.png> |"),
    ("figure", "<image:00000001.png>\nFigure 1"),
    refs=[RED, BLUE],
)


class TestDocumentsConserved:
    @staticmethod
    def plan(*sources: str, carried: tuple[LedgerRow, ...] = ()) -> Plan:
        documents = [PlannedDocument(source=source, doc_id=DOC, size=1, stamp="1") for source in sources]
        summary = PlanSummary(new=0, changed=0, gone=0, kept=0, to_parse=0, bytes_to_parse=0, sources={})
        return Plan(
            run_id="r",
            version="v",
            fingerprint="f",
            parent=None,
            summary=summary,
            documents=documents,
            carried=list(carried),
            shards=[],
        )

    @staticmethod
    def row(source: str, status: Status = Status.INDEXED, doc_id: str = DOC) -> LedgerRow:
        code = FailureCode.DAMAGED if status is Status.QUARANTINED else None
        return LedgerRow(source=source, doc_id=doc_id, size=1, stamp="1", status=status, attempt="k", code=code)

    def test_holds(self) -> None:
        carried = self.row("c.pdf", Status.QUARANTINED)
        ledger = [self.row("a.pdf"), self.row("b.pdf", Status.QUARANTINED), carried]
        gate = documents_conserved(self.plan("a.pdf", "b.pdf", carried=(carried,)), ledger)
        assert gate.passed
        assert gate.message == "3 sources in, 1 indexed, 2 quarantined"

    @pytest.mark.parametrize(
        ("sources", "message"),
        [
            (["a.pdf"], "b.pdf got lost"),
            (["a.pdf", "b.pdf", "c.pdf"], "c.pdf was not planned"),
            (["a.pdf", "b.pdf", "b.pdf"], "b.pdf was not planned"),
        ],
    )
    def test_fails(self, sources: list[str], message: str) -> None:
        gate = documents_conserved(self.plan("a.pdf", "b.pdf"), [self.row(source) for source in sources])
        assert (gate.passed, gate.value) == (False, 1)
        assert message in gate.message

    def test_fails_where_a_source_has_become_another_document(self) -> None:
        assert not documents_conserved(self.plan("a.pdf"), [self.row("a.pdf", doc_id=OTHER)]).passed


class TestContentConserved:
    """One document: page 1 with words and the red figure, page 2 with a failure, 3 marginal, 4 blank, 5 a scan."""

    PAGES = tuple(Page(number, 595, 842, 0, characters=10 if number < 4 else 0) for number in range(1, 6))

    @staticmethod
    def place(order: int, role: Role, page: int, figure: str | None, reason: str = "why") -> Placement:
        return Placement(page, order, BBox(0, 0, 1, 1), figure, Kind.RASTER, role, reason)

    @classmethod
    def document(cls, **changes: Any) -> DocumentIn:
        placements = (
            cls.place(0, Role.CONTENT, 1, RED),
            cls.place(1, Role.DECORATIVE, 1, BLUE),
            cls.place(2, Role.CONTENT, 2, None),
            cls.place(3, Role.PAGE_SCAN, 5, BLUE),
            cls.place(4, Role.ICON, 1, BLUE),
        )
        facts = {"doc_id": DOC, "pages": cls.PAGES, "placements": placements, "failed": {2}, "marginal": {3}}
        return DocumentIn(**facts | changes)

    @classmethod
    def placed(cls, document: DocumentIn, **changes: Any) -> pa.Table:
        """The placements table that should come of a document; ``changes`` go to the first."""
        numbers = {0: "00000001", 4: "00000002"}
        rows = [
            placement(place.figure_id, numbers.get(place.order))
            | {"order": place.order, "role": str(place.role), "reason": place.reason}
            for place in document.placements
        ]
        return placements(rows[0] | changes, *rows[1:])

    @staticmethod
    def rows(*, page: int = 1, figure: str | None = RED) -> pa.Table:
        region = {"page": page, "bbox": [0.0, 0.0, 1.0, 1.0]}
        written = [row | {"regions": [region], "figure_id": figure} for row in evidence(("figure", "words")).to_pylist()]
        return pa.Table.from_pylist(written, schema=EVIDENCE)

    @staticmethod
    def messages(gates: list[GateResult]) -> list[str]:
        return [gate.message for gate in gates if not gate.passed]

    def test_holds(self) -> None:
        document = self.document()
        pages, figures = content_conserved([document], self.rows(), self.placed(document))
        assert (pages.passed, figures.passed) == (True, True)
        assert pages.message == (
            "5 pages in, 1 indexed, 1 quarantined, 3 left out (1 of which no words were read; 1 with running heads alone; "
            "1 without words)"
        )
        assert figures.message == "5 figures in, 2 indexed, 1 quarantined, 2 left out (1 decorative; 1 page_scan)"

    def test_other_documents_do_not_matter(self) -> None:
        assert all(gate.passed for gate in content_conserved([], self.rows(), PLACED))

    @pytest.mark.parametrize(("failed", "marginal", "lost"), [(set(), {3}, 2), ({2}, set(), 3)])
    def test_fails_where_a_page_is_in_no_row_and_nothing_says_why(
        self, failed: set[int], marginal: set[int], lost: int
    ) -> None:
        document = self.document(failed=failed, marginal=marginal, placements=())
        gates = content_conserved([document], self.rows(), placements())
        assert self.messages(gates) == [f"pages conserved: page {lost} of document {DOC[:12]} got lost"]

    def test_fails_where_rows_stand_on_another_page(self) -> None:
        document = self.document(placements=())
        assert "page 1 of" in self.messages(content_conserved([document], self.rows(page=9), placements()))[0]

    def test_fails_where_a_placement_is_missing(self) -> None:
        document = self.document()
        gates = content_conserved([document], self.rows(), self.placed(document).slice(1))
        assert self.messages(gates) == [f"figures conserved: a figure on page 1 of document {DOC[:12]} got lost"]

    def test_fails_where_content_has_a_tag_but_no_row(self) -> None:
        document = self.document()
        gates = content_conserved([document], self.rows(figure=BLUE), self.placed(document))
        assert len(self.messages(gates)) == 1

    @pytest.mark.parametrize("changes", [{"number": None}, {"number": None, "role": "decorative", "reason": ""}])
    def test_fails_where_a_figure_is_left_out_for_no_reason(self, changes: dict[str, Any]) -> None:
        document = self.document()
        gates = content_conserved([document], self.rows(), self.placed(document, **changes))
        assert len(self.messages(gates)) == 1

    def test_fails_where_pixels_are_missing_and_nothing_failed(self) -> None:
        document = self.document(failed=set(), pages=())
        gates = content_conserved([document], self.rows(), self.placed(document))
        assert self.messages(gates) == [f"figures conserved: a figure on page 2 of document {DOC[:12]} got lost"]


class TestTakenOver:
    def test_holds(self) -> None:
        more = pa.concat_tables([WRITTEN, evidence(("text", "new"), doc_id=OTHER)])
        gate = taken_over(WRITTEN, PLACED, more, PLACED)
        assert (gate.passed, gate.message) == (True, "1 documents have the rows that they had before")
        assert taken_over(WRITTEN.slice(0, 0), PLACED.slice(0, 0), more, PLACED).passed

    @pytest.mark.parametrize(
        ("rows", "places", "said"),
        [(WRITTEN.slice(1), PLACED, "had 3 rows and has 2"), (WRITTEN, PLACED.slice(4), "had 4 placements and has 0")],
    )
    def test_fails(self, rows: pa.Table, places: pa.Table, said: str) -> None:
        gate = taken_over(WRITTEN, PLACED, rows, places)
        assert (gate.passed, gate.value) == (False, 1)
        assert said in gate.message


class TestTagsArePlacements:
    def test_holds(self) -> None:
        gate = tags_are_placements(WRITTEN, PLACED, TEMPLATE)
        assert (gate.passed, gate.message) == (True, "3 tags written for 3 tagged placements")

    def test_holds_for_other_templates_and_escaped_look_alikes(self) -> None:
        paper = TagTemplate(PAPER)
        text = escape("<image: filename(00000009.png)>") + paper.write("00000001")
        assert tags_are_placements(evidence(("text", text)), placements(placement(RED, "00000001")), paper).passed

    @pytest.mark.parametrize(
        "text", ["nothing", "<image:00000001.png><image:00000001.png>", "<image:00000001.png><image:00000003.png>"]
    )
    def test_fails_on_tags_too_few_or_too_many(self, text: str) -> None:
        gate = tags_are_placements(evidence(("text", text)), placements(placement(RED, "00000001")), TEMPLATE)
        assert (gate.passed, gate.value) == (False, 1)

    def test_fails_where_documents_swap_their_figures(self) -> None:
        gate = tags_are_placements(WRITTEN, placements(placement(RED, "00000001", OTHER)), TEMPLATE)
        assert not gate.passed
        assert "is placed 1 times, written 0" in gate.message


class TestTagsResolve:
    def test_holds(self) -> None:
        gate = tags_resolve(WRITTEN, PLACED, TEMPLATE)
        assert (gate.passed, gate.message) == (True, "all 4 tags lead to figures of their own document")
        assert tags_resolve(evidence(("text", escape("<image:1.png>"))), PLACED, TEMPLATE).passed

    def test_holds_where_a_bracket_stands_before_a_tag_or_at_a_chunks_end(self) -> None:
        text = f"press < {TEMPLATE.write('00000001')} while x <"
        assert tags_resolve(evidence(("text", text)), PLACED, TEMPLATE).passed

    @pytest.mark.parametrize(
        ("text", "refs"),
        [
            ("<image:00000003.png>", []),
            ("words", ["e" * 64]),
            ("cut <image:000", []),
            (placeholder(RED), []),
        ],
    )
    def test_fails(self, text: str, refs: list[str]) -> None:
        gate = tags_resolve(evidence(("text", text), refs=refs), PLACED, TEMPLATE)
        assert (gate.passed, gate.value) == (False, 1)
        assert "row-0" in gate.message

    def test_fails_on_figures_of_another_document(self) -> None:
        assert not tags_resolve(evidence(("text", "<image:00000001.png>"), doc_id=OTHER), PLACED, TEMPLATE).passed


class TestOneFigureANumber:
    def test_holds(self) -> None:
        assert one_figure_a_number(PLACED).passed

    @pytest.mark.parametrize(
        ("first", "second"), [((RED, "00000001"), (BLUE, "00000001")), ((RED, "00000001"), (RED, "100000001"))]
    )
    def test_fails(self, first: tuple[str, str], second: tuple[str, str]) -> None:
        gate = one_figure_a_number(placements(placement(*first), placement(*second)))
        assert (gate.passed, gate.value) == (False, 1)


class TestFiguresAreTheirNames:
    @pytest.mark.parametrize(("kind", "mode"), [("PNG", "RGB"), ("PNG", "P"), ("BMP", "RGB")])
    def test_holds_for_any_faithful_encoding(self, kind: str, mode: str) -> None:
        stored = {RED: png("red", kind, mode), BLUE: png("blue", kind, mode)}
        gate = figures_are_their_names(PLACED, stored.__getitem__)
        assert (gate.passed, gate.message) == (True, "2 of 2 figures decoded, the others were before")

    def test_does_not_look_again_at_what_was_verified(self) -> None:
        stored = {RED: png("red")}
        assert figures_are_their_names(PLACED, stored.__getitem__, verified={BLUE}).passed

    @pytest.mark.parametrize(
        ("stored", "message"),
        [(png("red"), "has other pixels"), (b"junk", "can't be decoded"), (png("blue")[:40], "can't be decoded")],
    )
    def test_fails(self, stored: bytes, message: str) -> None:
        gate = figures_are_their_names(placements(placement(BLUE, "00000002")), lambda _name: stored)
        assert (gate.passed, gate.value) == (False, 1)
        assert message in gate.message

    def test_fails_where_nothing_is_stored(self) -> None:
        def load(name: str) -> bytes:
            raise FileNotFoundError(name)

        gate = figures_are_their_names(PLACED, load)
        assert (gate.passed, gate.value) == (False, 2)
        assert "is not stored" in gate.message


class TestRowsNotLost:
    @pytest.mark.parametrize(("rows", "parent"), [(100, None), (0, None), (50, 100), (100, 50), (0, 0)])
    def test_holds(self, rows: int, parent: int | None) -> None:
        assert rows_not_lost(rows, parent, 0.5).passed

    @pytest.mark.parametrize(("rows", "parent"), [(49, 100), (0, 1)])
    def test_fails(self, rows: int, parent: int) -> None:
        gate = rows_not_lost(rows, parent, 0.5)
        assert not gate.passed
        assert gate.value == pytest.approx(1 - rows / parent)
        assert "gates.max_row_loss" in gate.message


class TestRowsAPage:
    @pytest.mark.parametrize(
        ("rows", "pages", "parent"),
        [(30, 10, None), (60, 10, (20, 10)), (20, 10, (60, 10)), (0, 0, (2, 1)), (600, 100, (2, 1))],
    )
    def test_holds(self, rows: int, pages: int, parent: tuple[int, int] | None) -> None:
        assert rows_a_page(rows, pages, parent, 3.0).passed

    @pytest.mark.parametrize(
        ("rows", "pages", "parent", "drift"),
        [(80, 10, (20, 10), 4.0), (20, 10, (80, 10), 4.0), (100, 100, (40, 10), 4.0), (0, 10, (20, 10), 20.0)],
    )
    def test_fails_both_ways(self, rows: int, pages: int, parent: tuple[int, int], drift: float) -> None:
        gate = rows_a_page(rows, pages, parent, 3.0)
        assert (gate.passed, gate.bound) == (False, 3.0)
        assert gate.value == pytest.approx(drift)
        assert "gates.max_row_drift" in gate.message


class TestQuarantineCeiling:
    @pytest.mark.parametrize(("documents", "quarantined"), [(10, 0), (4, 1)])
    def test_holds(self, documents: int, quarantined: int) -> None:
        assert quarantine_ceiling(documents, quarantined, 0.2).passed

    @pytest.mark.parametrize(("documents", "quarantined", "ceiling"), [(3, 1, 0.2), (0, 5, 1.0)])
    def test_fails(self, documents: int, quarantined: int, ceiling: float) -> None:
        gate = quarantine_ceiling(documents, quarantined, ceiling)
        assert not gate.passed
        assert f"the ceiling is {ceiling:.0%}" in gate.message

    def test_an_empty_version_fails_for_what_it_is(self) -> None:
        gate = quarantine_ceiling(0, 0, 0.2)
        assert not gate.passed
        assert "the source is empty" in gate.message
        assert "%" not in gate.message


def test_a_message_names_a_few_offenders_and_counts_the_rest() -> None:
    many = evidence(*[("text", f"<image:1000000{place}.png>") for place in range(9)])
    gate = tags_resolve(many, PLACED, TEMPLATE)
    assert gate.value == 9
    assert gate.message.endswith("and 6 more")


def test_pictures_away_from_their_text_refuse_and_a_few_do_not() -> None:
    right, wrong = dict.fromkeys(range(16), True), dict.fromkeys(range(16, 20), False)
    assert pictures_by_their_text([right, wrong], 0.8).passed
    gate = pictures_by_their_text([right, {**wrong, 20: False}], 0.8)
    assert (gate.passed, gate.value) == (False, 16 / 21)
    assert "16 of 21 pictures without a caption" in gate.message
    assert pictures_by_their_text([{0: False}], 0.8).passed
    assert pictures_by_their_text([], 0.8).passed


@pytest.mark.parametrize(("order", "answer"), [((0, 1, 2), True), ((1, 0, 2), True), ((0, 2, 1), False)])
def test_a_picture_is_by_its_text_if_a_block_next_to_it_is_read_next(order: tuple[int, ...], answer: bool) -> None:
    picture = Placement(1, 0, BBox(72, 130, 300, 230), "ab" * 32, Kind.RASTER, Role.CONTENT, "image")
    made = [
        (BlockKind.TEXT, BBox(72, 100, 500, 125), None),
        (BlockKind.FIGURE, picture.bbox, 0),
        (BlockKind.TEXT, BBox(72, 600, 500, 625), None),
    ]
    blocks = [
        Block(at, 1, *made[number][:1], made[number][1], "text", placement=made[number][2])
        for at, number in enumerate(order)
    ]
    figures = [PlacedFigure(picture, "", (), "", 0)]
    assert read_with_neighbours([Page(1, 595, 842, 0, 100)], blocks, figures) == {0: answer}
