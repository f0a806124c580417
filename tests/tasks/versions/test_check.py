import io
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from PIL import Image

from schemas.corpus.operations import GateOptions
from schemas.documents import Kind, Page, Placement, Role
from schemas.errors import FailureCode
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.gates import GateVerdict, Violation, describe_violations, descriptions_by_document
from schemas.geometry import BBox
from schemas.ids import figure_id
from schemas.tags import PAPER, TagTemplate, escape, placeholder
from schemas.versions import LedgerRow, Plan, PlannedDocument, PlanSummary, Status
from tasks.versions.check import DocumentContent, documents_conserved, documents_gone, quarantine_ceiling, rows_reused
from tests.versions import (
    content_conserved,
    figures_are_their_names,
    one_figure_a_number,
    tags_are_placements,
    tags_resolve,
)

TEMPLATE = TagTemplate()
DOC, OTHER = "0" * 64, "1" * 64
NAMES = {DOC: "a.pdf", OTHER: "b.pdf"}


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
    records = [
        {
            "evidence_id": f"row-{index}",
            "modality": modality,
            "doc_id": doc_id,
            "sources": ["a.pdf"],
            "page": 1,
            "bbox": [0.0, 0.0, 1.0, 1.0],
            "regions": [],
            "order": index,
            "section_path": [],
            "title": "",
            "text": "",
            "tagged_text": text,
            "figure_refs": refs or [],
            "caption": "",
        }
        for index, (modality, text) in enumerate(rows)
    ]
    return pa.Table.from_pylist(records, schema=EVIDENCE)


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
        gate = documents_conserved(self.plan("a.pdf", "b.pdf", carried=(carried,)), ledger).gate
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
        verdict = documents_conserved(self.plan("a.pdf", "b.pdf"), [self.row(source) for source in sources])
        assert (verdict.gate.passed, verdict.gate.value) == (False, 1)
        assert verdict.gate.message == f"{message}; this is a fault of Inset: please report it"
        assert descriptions_by_document([verdict], [DOC]) == {}, "it is the version's"

    def test_fails_where_a_source_has_become_another_document(self) -> None:
        assert not documents_conserved(self.plan("a.pdf"), [self.row("a.pdf", doc_id=OTHER)]).gate.passed


class TestContentConserved:
    """One document: page 1 with words and the red figure, page 2 with a failure, 3 marginal, 4 blank, 5 a scan."""

    PAGES = tuple(Page(number, 595, 842, 0, characters=10 if number < 4 else 0) for number in range(1, 6))

    @staticmethod
    def place(order: int, role: Role, page: int, figure: str | None, reason: str = "why") -> Placement:
        return Placement(page, order, BBox(0, 0, 1, 1), figure, Kind.RASTER, role, reason)

    @classmethod
    def document(cls, **changes: Any) -> DocumentContent:
        placements = (
            cls.place(0, Role.CONTENT, 1, RED),
            cls.place(1, Role.DECORATIVE, 1, BLUE),
            cls.place(2, Role.CONTENT, 2, None),
            cls.place(3, Role.PAGE_SCAN, 5, BLUE),
            cls.place(4, Role.ICON, 1, BLUE),
        )
        facts = {"doc_id": DOC, "pages": cls.PAGES, "placements": placements, "failed": {2}, "marginal": {3}}
        return DocumentContent(**facts | changes)

    @classmethod
    def placed(cls, document: DocumentContent, **changes: Any) -> pa.Table:
        """The placements table that should come of a document; ``changes`` go to the first."""
        numbers = {0: "00000001", 4: "00000002"}
        rows = [
            placement(parsed_placement.figure_id, numbers.get(parsed_placement.order))
            | {"order": parsed_placement.order, "role": str(parsed_placement.role), "reason": parsed_placement.reason}
            for parsed_placement in document.placements
        ]
        return placements(rows[0] | changes, *rows[1:])

    @staticmethod
    def rows(*, page: int = 1, figure: str | None = RED) -> pa.Table:
        region = {"page": page, "bbox": [0.0, 0.0, 1.0, 1.0]}
        records = [row | {"regions": [region], "figure_id": figure} for row in evidence(("figure", "words")).to_pylist()]
        return pa.Table.from_pylist(records, schema=EVIDENCE)

    @staticmethod
    def messages(verdicts: list[GateVerdict]) -> list[str]:
        """What is said of the document, without what is to be done."""
        return [broken.rpartition("; ")[0] for broken in descriptions_by_document(verdicts, [DOC]).values()]

    def test_holds(self) -> None:
        document = self.document()
        pages, figures = (
            verdict.gate for verdict in content_conserved([document], self.rows(), self.placed(document), NAMES)
        )
        assert (pages.passed, figures.passed) == (True, True)
        assert pages.message == (
            "5 pages in, 1 indexed, 1 quarantined, 3 left out (1 of which no words were read; 1 with running heads alone; "
            "1 without words)"
        )
        assert figures.message == "5 figures in, 2 indexed, 1 quarantined, 2 left out (1 decorative; 1 page_scan)"

    def test_other_documents_do_not_matter(self) -> None:
        assert all(verdict.gate.passed for verdict in content_conserved([], self.rows(), PLACED, NAMES))

    @pytest.mark.parametrize(("failed", "marginal", "lost"), [(set(), {3}, 2), ({2}, set(), 3)])
    def test_fails_where_a_page_is_in_no_row_and_nothing_says_why(
        self, failed: set[int], marginal: set[int], lost: int
    ) -> None:
        document = self.document(failed=failed, marginal=marginal, placements=())
        pages, figures = content_conserved([document], self.rows(), placements(), NAMES)
        assert self.messages([pages, figures]) == [f"pages conserved: a page has words and no row (page {lost})"]
        message = f"a.pdf: a page has words and no row (page {lost}); this is a fault of Inset: please report it"
        assert (pages.gate.passed, pages.gate.value, pages.gate.message) == (False, 1, message)

    def test_fails_where_rows_stand_on_another_page(self) -> None:
        document = self.document(placements=())
        assert "(page 1)" in self.messages(content_conserved([document], self.rows(page=9), placements(), NAMES))[0]

    def test_a_row_of_the_whole_page_hides_no_lost_words_and_must_be_there_where_it_has_a_picture(self) -> None:
        page_rows = [{**row, "modality": "page"} for row in self.rows(page=1, figure=BLUE).to_pylist()]
        alone = pa.Table.from_pylist(page_rows, schema=EVIDENCE)
        document = self.document(placements=())
        gates = content_conserved([document], alone, placements(), NAMES)
        assert self.messages(gates) == ["pages conserved: a page has words and no row (page 1)"]
        pictured = self.document(placements=(), pictured={1, 4})
        gates = content_conserved([pictured], pa.concat_tables([self.rows(), alone]), placements(), NAMES)
        assert self.messages(gates) == ["pages conserved: a page has a picture and no row of its own (page 4)"]

    @pytest.mark.parametrize(
        ("facts", "first", "changes", "figure", "message"),
        [
            ({}, 1, {}, RED, "a figure has no placement (page 1)"),
            ({}, 0, {}, BLUE, "a figure has no row (page 1)"),
            ({}, 0, {"number": None}, RED, "a figure has no tag, and nothing says why (page 1)"),
            (
                {},
                0,
                {"number": None, "role": "decorative", "reason": ""},
                RED,
                "a figure has no tag, and nothing says why (page 1)",
            ),
            ({"failed": set(), "pages": ()}, 0, {}, RED, "a figure has no tag, and nothing says why (page 2)"),
        ],
    )
    def test_fails_where_a_figure_is_lost(
        self, facts: dict[str, Any], first: int, changes: dict[str, Any], figure: str, message: str
    ) -> None:
        document = self.document(**facts)
        placed = self.placed(document, **changes).slice(first)
        gates = content_conserved([document], self.rows(figure=figure), placed, NAMES)
        assert self.messages(gates) == [f"figures conserved: {message}"]


class _Counts(NamedTuple):
    rows: int
    placements: int


class TestTakenOver:
    def test_holds(self) -> None:
        now = {DOC: _Counts(3, 4), OTHER: _Counts(1, 0)}
        gate = rows_reused({DOC: _Counts(3, 4)}, now, {DOC}, 4, NAMES).gate
        assert (gate.passed, gate.message) == (True, "1 documents have the rows that they had before")
        assert rows_reused({}, now, {DOC}, 4, NAMES).gate.passed

    @pytest.mark.parametrize(
        ("now", "message"),
        [
            ({DOC: _Counts(2, 4)}, "a.pdf: it had 3 rows and has 2"),
            ({DOC: _Counts(3, 0)}, "a.pdf: it had 4 placements and has 0"),
            ({}, "it had 3 rows and has 0"),
        ],
    )
    def test_fails(self, now: dict[str, _Counts], message: str) -> None:
        verdict = rows_reused({DOC: _Counts(3, 4)}, now, {DOC}, sum(counts.rows for counts in now.values()), NAMES)
        assert not verdict.gate.passed
        assert message in verdict.gate.message
        assert descriptions_by_document([verdict], [DOC]).keys() == {DOC}

    def test_fails_where_a_part_lost_a_row(self) -> None:
        verdict = rows_reused({}, {DOC: _Counts(3, 4)}, {DOC}, 2, NAMES)
        assert (verdict.gate.passed, descriptions_by_document([verdict], [DOC])) == (False, {})
        assert "the parts have 2 rows, and the documents 3" in verdict.gate.message


class TestTagsArePlacements:
    def test_holds(self) -> None:
        gate = tags_are_placements(WRITTEN, PLACED, TEMPLATE, NAMES).gate
        assert (gate.passed, gate.message) == (True, "3 tags written for 3 tagged placements")

    def test_holds_for_other_templates_and_escaped_look_alikes(self) -> None:
        paper = TagTemplate(PAPER)
        text = escape("<image: filename(00000009.png)>") + paper.write("00000001")
        assert tags_are_placements(
            evidence(("text", text)), placements(placement(RED, "00000001")), paper, NAMES
        ).gate.passed

    @pytest.mark.parametrize(
        "text", ["nothing", "<image:00000001.png><image:00000001.png>", "<image:00000001.png><image:00000003.png>"]
    )
    def test_fails_on_tags_too_few_or_too_many(self, text: str) -> None:
        placed = placements(placement(RED, "00000001"))
        verdict = tags_are_placements(evidence(("text", text)), placed, TEMPLATE, NAMES)
        assert (verdict.gate.passed, verdict.gate.value) == (False, 1)
        assert "a.pdf: tag 0000000" in verdict.gate.message

    def test_fails_where_documents_swap_their_figures(self) -> None:
        verdict = tags_are_placements(WRITTEN, placements(placement(RED, "00000001", OTHER)), TEMPLATE, NAMES)
        assert "b.pdf: tag 00000001 is placed 1 times and written 0 times (page 1)" in verdict.gate.message
        assert descriptions_by_document([verdict], [DOC, OTHER]).keys() == {DOC, OTHER}


class TestTagsResolve:
    def test_holds(self) -> None:
        gate = tags_resolve(WRITTEN, PLACED, TEMPLATE, NAMES).gate
        assert (gate.passed, gate.message) == (True, "all 4 tags lead to figures of their own document")
        assert tags_resolve(evidence(("text", escape("<image:1.png>"))), PLACED, TEMPLATE, NAMES).gate.passed

    def test_holds_where_a_bracket_stands_before_a_tag_or_at_a_chunks_end(self) -> None:
        text = f"press < {TEMPLATE.write('00000001')} while x <"
        assert tags_resolve(evidence(("text", text)), PLACED, TEMPLATE, NAMES).gate.passed

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
        verdict = tags_resolve(evidence(("text", text), refs=refs), PLACED, TEMPLATE, NAMES)
        assert (verdict.gate.passed, verdict.gate.value) == (False, 1)
        assert verdict.gate.message.startswith("a.pdf: ")
        assert "(page 1)" in descriptions_by_document([verdict], [DOC])[DOC]

    def test_fails_on_figures_of_another_document(self) -> None:
        assert not tags_resolve(
            evidence(("text", "<image:00000001.png>"), doc_id=OTHER), PLACED, TEMPLATE, NAMES
        ).gate.passed


class TestOneFigureANumber:
    def test_holds(self) -> None:
        assert one_figure_a_number(PLACED, NAMES).gate.passed

    CONTRADICTIONS = (((RED, "00000001"), (BLUE, "00000001")), ((RED, "00000001"), (RED, "100000001")))

    @pytest.mark.parametrize(("first", "second"), CONTRADICTIONS)
    def test_fails_for_a_document_that_contradicts_itself(self, first: tuple[str, str], second: tuple[str, str]) -> None:
        placed = placements(placement(*first), placement(*second), placement(*first, OTHER))
        verdict = one_figure_a_number(placed, NAMES)
        assert not verdict.gate.passed
        assert descriptions_by_document([verdict], [DOC, OTHER]).keys() == {DOC}

    @pytest.mark.parametrize(("first", "second"), CONTRADICTIONS)
    def test_fails_for_the_version_where_documents_contradict_each_other(
        self, first: tuple[str, str], second: tuple[str, str]
    ) -> None:
        verdict = one_figure_a_number(placements(placement(*first), placement(*second, OTHER)), NAMES)
        assert (verdict.gate.passed, verdict.gate.value) == (False, 1)
        assert "as in a.pdf page 1, b.pdf page 1; this is a fault" in verdict.gate.message
        assert descriptions_by_document([verdict], [DOC, OTHER]) == {}


class TestFiguresAreTheirNames:
    def test_holds(self) -> None:
        gate = figures_are_their_names(PLACED, {RED: None, BLUE: None}, NAMES).gate
        assert (gate.passed, gate.message) == (True, "2 figures decoded")

    def test_fails(self) -> None:
        gate = figures_are_their_names(placements(placement(BLUE, "00000002")), {BLUE: "is not stored"}, NAMES).gate
        assert (gate.passed, gate.value) == (False, 1)
        assert gate.message.startswith("a.pdf: ")
        assert "is not stored" in gate.message


def ledger(indexed: int, quarantined: int) -> list[LedgerRow]:
    make = TestDocumentsConserved.row
    rows = [make(f"{number}.pdf", doc_id=f"{number:064x}") for number in range(indexed)]
    return rows + [make(f"bad{number}.pdf", Status.QUARANTINED, f"{number:063x}f") for number in range(quarantined)]


class TestQuarantineCeiling:
    @pytest.mark.parametrize(("documents", "quarantined"), [(10, 0), (4, 1)])
    def test_holds(self, documents: int, quarantined: int) -> None:
        assert quarantine_ceiling(ledger(documents, quarantined), GateOptions(), "m").passed

    @pytest.mark.parametrize(("documents", "quarantined", "ceiling"), [(3, 1, 0.2), (0, 5, 1.0)])
    def test_fails(self, documents: int, quarantined: int, ceiling: float) -> None:
        gate = quarantine_ceiling(ledger(documents, quarantined), GateOptions(max_quarantined=ceiling), "m")
        assert not gate.passed
        assert f"the ceiling is {ceiling:.0%}: bad0.pdf (damaged)" in gate.message
        assert "to see why: inset quarantine m" in gate.message
        assert ("and 2 more" in gate.message) == (quarantined == 5)

    @pytest.mark.parametrize("rows", [ledger(0, 5), []], ids=["quarantined", "empty"])
    def test_no_ceiling_lets_a_version_without_documents_pass(self, rows: list[LedgerRow]) -> None:
        gate = quarantine_ceiling(rows, GateOptions(max_quarantined=1), "m")
        assert not gate.passed

    def test_documents_count_and_not_their_sources(self) -> None:
        twice = [replace(row, source=f"copy/{row.source}") for row in ledger(1, 1)]
        assert quarantine_ceiling([*ledger(4, 1), *twice], GateOptions(), "m").passed

    def test_an_empty_version_fails_for_what_it_is(self) -> None:
        gate = quarantine_ceiling([], GateOptions(), "m")
        assert not gate.passed
        assert "the source is empty" in gate.message
        assert "%" not in gate.message


def test_a_message_names_a_few_offenders_and_counts_the_rest() -> None:
    many = evidence(*[("text", f"<image:1000000{number}.png>") for number in range(9)])
    gate = tags_resolve(many, PLACED, TEMPLATE, NAMES).gate
    assert gate.value == 9
    assert "tag 10000002 leads nowhere (page 1); and 6 more faults; this is" in gate.message


def test_a_message_groups_what_is_alike_by_its_pages() -> None:
    violations = [Violation(DOC, page, "a figure has no row") for page in (9, 4, 4, 7, 1, 12)]
    assert describe_violations([*violations, Violation(OTHER, None, "it had 3 rows and has 2")], NAMES) == (
        "a.pdf: a figure has no row (pages 1, 4, 7 and 2 more); b.pdf: it had 3 rows and has 2"
    )
    many = [Violation(f"{number:064x}", 1, "it is so") for number in range(5)]
    assert describe_violations(many, {row.doc_id or "": f"{row.doc_id}.pdf"[-5:] for row in many}) == (
        "0.pdf: it is so (page 1); 1.pdf: it is so (page 1); 2.pdf: it is so (page 1); and 2 more documents"
    )


def test_what_no_document_of_the_version_is_to_blame_for_stays_with_the_version() -> None:
    verdict = tags_resolve(evidence(("text", "<image:1.png>")), PLACED, TEMPLATE, {})
    assert descriptions_by_document([verdict], [OTHER]) == {}
    assert f"a document that isn't in the version ({DOC[:12]}): tag 1 leads nowhere" in verdict.gate.message


class TestDocumentsGone:
    @pytest.mark.parametrize(("before", "now"), [(0, 5), (10, 10), (5, 3), (30, 27)])
    def test_holds(self, before: int, now: int) -> None:
        assert documents_gone(ledger(now, 0), ledger(before, 0), GateOptions()).passed

    @pytest.mark.parametrize(("before", "now", "share"), [(29, 26, 3 / 29), (8, 4, 0.5), (3, 0, 1.0), (4, 2, 0.5)])
    def test_fails_and_names_them(self, before: int, now: int, share: float) -> None:
        gate = documents_gone(ledger(now, 0), ledger(before, 0), GateOptions())
        assert not gate.passed
        assert gate.value == pytest.approx(share)
        assert f"{before - now} of {before} documents of the live version are gone from the source" in gate.message
        assert ", ".join(sorted(f"{number}.pdf" for number in range(now, before))[:3]) in gate.message
        assert ("and 1 more" in gate.message) == (before - now == 4)
        assert documents_gone(ledger(now, 0), ledger(before, 0), GateOptions(max_documents_gone=share)).passed

    def test_what_is_renamed_changed_copied_or_was_in_quarantine_is_not_gone(self) -> None:
        before = ledger(4, 4)
        renamed, changed, *unchanged = before[:4]
        copies = [replace(row, source=f"copy/{row.source}") for row in unchanged]
        now = [replace(renamed, source="renamed.pdf"), replace(changed, doc_id=f"{99:064x}"), *copies]
        gate = documents_gone(now, before, GateOptions(max_documents_gone=0))
        assert gate.message.startswith("0 of 4 documents")
