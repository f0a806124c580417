import io
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from schemas.errors import FailureCode
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.ids import figure_id
from schemas.tags import PAPER, TagTemplate, escape, placeholder
from schemas.versions import LedgerRow, Plan, PlannedDocument, PlanSummary, Status
from tasks.check import (
    documents_conserved,
    figures_are_their_names,
    one_figure_a_number,
    rows_not_lost,
    tags_are_placements,
    tags_resolve,
)

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


def test_a_message_names_a_few_offenders_and_counts_the_rest() -> None:
    many = evidence(*[("text", f"<image:1000000{place}.png>") for place in range(9)])
    gate = tags_resolve(many, PLACED, TEMPLATE)
    assert gate.value == 9
    assert gate.message.endswith("and 6 more")
