"""Corrections by hand: kept in the store, applied by refreshes, and held through revisions of documents."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pymupdf
import pytest
from typer.testing import CliRunner

from cli.main import app
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.operations.corrections import LiveDocument, PagePart, correct_part, listed_corrections
from pipeline.records.corrections import CORRECTIONS
from pipeline.records.differences import difference
from pipeline.records.evidence import read_placements
from pipeline.records.manifests import named_manifest
from pipeline.records.row_parts import rows_of_documents
from pipeline.run import refresh
from pipeline.upkeep.forget import forget
from pipeline.upkeep.prune import prune
from schemas.corrections import CorrectionKind
from tests.manuals import picture, sentence
from tests.pipeline.conftest import write_corpus

HOSTILE = "Side <image:1234567890.png> of the <b>pump</b>"


def inset(workspace: Workspace, *arguments: str) -> Any:
    result = CliRunner().invoke(app, ["correct", str(workspace.file), *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.output


def parts(workspace: Workspace, source: str, page: int) -> list[PagePart]:
    return LiveDocument(workspace.store, workspace.corpus.name, source).parts(page).parts


def figure_of(workspace: Workspace, source: str, page: int) -> PagePart:
    return next(part for part in parts(workspace, source, page) if CorrectionKind.CAPTION in part.kinds)


def rows(workspace: Workspace, version: str, doc_id: str) -> list[dict[str, Any]]:
    found = rows_of_documents(workspace.store, version, {doc_id})
    return [row for _, rows in found for row in rows.evidence.to_pylist()]


def published_version(workspace: Workspace) -> str:
    result = refresh(workspace)
    assert result.published
    return str(result.version)


def test_a_corrected_caption_changes_one_row_of_one_document_and_is_undone(published: Workspace) -> None:
    figure = figure_of(published, "pump.pdf", 1)
    assert figure.text == "Figure 1: The water pump seen from side 1"
    shown = inset(published, "pump.pdf", "1", "--json")
    assert (shown["pages"], figure.name in {part["name"] for part in shown["parts"]}) == (2, True)
    before = refresh(published).version or ""
    made = inset(published, "pump.pdf", "1", figure.name[:12], "caption", HOSTILE, "--reason", "as shown", "--json")
    states = inset(published, "--json")["corrections"]
    assert [(one["id"], one["state"]) for one in states] == [(made["id"], "waits for a refresh")]

    version = published_version(published)
    counts = named_manifest(published.store, "manuals", version)
    changes = difference(published.store, version, before)
    assert changes.changed == changes.removed == [shown["doc_id"]]
    earlier, later = (rows(published, name, shown["doc_id"]) for name in (before, version))
    assert (len(earlier), [row["modality"] for row in later if row not in earlier]) == (len(later), ["figure"])
    assert len([row for row in earlier if row in later]) == len(later) - 1
    assert counts.work["structured"] == 1
    assert figure_of(published, "pump.pdf", 1).text == HOSTILE
    assert inset(published, "--json")["corrections"][0]["state"] == "live"
    assert all(gate.passed for gate in counts.gates), "no tag that doesn't resolve"

    inset(published, "--undo", made["id"])
    assert published_version(published) == before, "the version of the same inputs goes live again"
    assert inset(published, "--json") == {"corrections": []}
    assert inset(published, "--json", "--all")["corrections"][0]["correction"]["undone"].startswith("by ")


def test_a_correction_keeps_to_what_can_be_corrected(published: Workspace) -> None:
    figure = figure_of(published, "pump.pdf", 1)
    for arguments, message in (
        (["pump.pdf", "9", figure.name, "caption", "A pump"], "its pages are 1 to 2"),
        (["crane.pdf", "1", figure.name, "caption", "A pump"], "has no document crane.pdf"),
        (["pump.pdf", "2", figure.name, "caption", "A pump"], "page 2 of pump.pdf has no"),
        (["pump.pdf", "1", figure.name, "title", "A pump"], "a content has no title to correct"),
        (["pump.pdf", "1", figure.name, "role", "icon"], "'icon' is no role; choose one of: content, decorative"),
        (["pump.pdf", "1", figure.name, "caption", " "], "a caption has 1 to 20,000 characters"),
        (["--undo", "12345678"], "there is no correction '12345678' to undo"),
    ):
        result = CliRunner().invoke(app, ["correct", str(published.file), *arguments])
        assert message in str(result.exception), arguments
    assert not published.store.exists(CORRECTIONS)


def test_a_file_describes_figures_or_changes_nothing(published: Workspace, tmp_path: Path) -> None:
    first, second = (figure_of(published, "pump.pdf", page).name for page in (1, 2))
    placed = read_placements(published.store, refresh(published).version or "")
    number = {row["figure_id"]: row["number"] for row in placed.to_pylist()}[second]
    file = tmp_path / "described.yaml"
    for text, message in (
        (f"{first[:12]}: The pump\n0000000000000000: Nothing\n", "'0000000000000000' names no figures"),
        (f"{first[:12]}: The pump\n'': All\n", "'' names "),
        ("- a list", "write a line a figure"),
        ("a: {", "not YAML"),
        (f"{first[:12]}: ''", "a description has 1 to"),
    ):
        file.write_text(text)
        result = CliRunner().invoke(app, ["correct", str(published.file), "--file", str(file)])
        assert message in str(result.exception), text
    assert not published.store.exists(CORRECTIONS)
    file.write_text(f"{first[:12]}: The pump from the side\n{number}: Its lever\n")
    assert "2 descriptions corrected" in inset(published, "--file", str(file))
    stored = {
        entry.correction.figure_id: entry.correction.value for entry in listed_corrections(published.store, "manuals")
    }
    assert stored == {first: "The pump from the side", second: "Its lever"}


@pytest.mark.slow
def test_every_kind_is_applied_and_forgotten_with_its_document(published: Workspace) -> None:
    def correct(page: int, name: str, kind: CorrectionKind, value: str) -> None:
        correct_part(published.store, "manuals", "pump.pdf", page, name, kind, value, by="ada")

    first, second = figure_of(published, "pump.pdf", 1), figure_of(published, "pump.pdf", 2)
    title = next(part for part in parts(published, "pump.pdf", 1) if CorrectionKind.TITLE in part.kinds)
    fact = next(part for part in parts(published, "pump.pdf", 2) if part.text.startswith("As Figure 2"))
    correct(1, first.name, CorrectionKind.DESCRIPTION, "A quodpump")
    correct(1, first.name, CorrectionKind.DESCRIPTION, "A quodpump with a lever")
    correct(1, title.name, CorrectionKind.TITLE, "1 Upkeep of the pump")
    correct(2, second.name, CorrectionKind.ROLE, "decorative")
    correct(2, fact.name, CorrectionKind.KIND, "heading")
    version = published_version(published)
    assert {one.state for one in listed_corrections(published.store, "manuals")} == {"live", "undone"}
    document = LiveDocument(published.store, "manuals", "pump.pdf")
    assert next(part for part in document.parts(2).parts if part.name == second.name).what == "decorative"
    paths = {path for block in document.blocks for path in block.section_path}
    assert {"1 Upkeep of the pump", "As Figure 2 shows, the water pump has 2 screws."} <= paths
    assert "1 Service of the water pump, part 1" not in paths
    assert all(gate.passed for gate in named_manifest(published.store, "manuals", version).gates)
    found = CliRunner().invoke(app, ["search", str(published.file), "quodpump lever", "--json"], catch_exceptions=False)
    assert "A quodpump with a lever" in found.stdout

    prune(published, dry_run=False)
    assert LiveDocument(published.store, "manuals", "pump.pdf").blocks
    forget(published, "pump.pdf", dry_run=False, reason="sold")
    assert listed_corrections(published.store, "manuals") == []


Pages = list[list[Any]]
"""A manual: of each page its blocks from top to bottom: a heading, a text, rows of a table, or the seed of a picture."""


def manual(number: int) -> Pages:
    table = [["Screw", "Torque"], ["M6", f"{number}6 Nm"], ["M8", f"{number}8 Nm"]]
    return [
        [f"# Mounting the unit {number}", sentence(number), table, "## Note", sentence(100 + number)],
        [f"# Care of the unit {number}", number * 10 + 1, f"Figure 1: Unit {number}", "## Note", sentence(200 + number)],
        [f"# Parts of the unit {number}", number * 10 + 2, f"Figure 2: PagePart {number}", f"Warning {number}: hot"],
    ]


def write(path: Path, pages: Pages) -> None:
    document, contents = pymupdf.open(), list[tuple[int, str, int]]()
    for blocks in pages:
        page, y = document.new_page(width=595, height=842), 80.0
        for block in blocks:
            if isinstance(block, int):
                page.insert_image((180, y, 420, y + 160), stream=picture(block))
                y += 178
            elif isinstance(block, list):
                for cells in block:
                    for column, text in enumerate(cells):
                        box = pymupdf.Rect(72 + 150 * column, y, 222 + 150 * column, y + 24)
                        page.draw_rect(box)
                        page.insert_text((box.x0 + 6, box.y0 + 16), text, fontsize=10)
                    y += 24
                y += 40
            else:
                mark, _, title = block.rpartition("# ")
                if "# " in block:
                    contents.append((len(mark) + 1, title, len(document)))
                page.insert_text((72, y), title, fontsize=18 if "# " in block else 10)
                y += 40
    document.set_toc([*map(list, contents)])
    path.parent.mkdir(parents=True, exist_ok=True)
    document.save(path, garbage=3, deflate=True, no_new_id=True)
    document.close()


def _moved(pages: Pages, _number: int) -> Pages:
    return [[*page[:1], "A new line of the revision.", *page[1:]] for page in pages]


def _other_cell(pages: Pages, number: int) -> Pages:
    pages[0][2][2][1] = f"{number}9 Nm"
    return pages


def _second_picture(pages: Pages, number: int) -> Pages:
    return [*pages, ["# Annex", number * 10 + 1, "Figure 3: The same again"]]


REVISIONS: list[tuple[str, Callable[[Pages, int], Pages], set[str]]] = [
    ("a page before", lambda pages, _: [["# Preface", "New in this edition."], *pages], set()),
    ("lines before", _moved, set()),
    ("another cell", _other_cell, set()),
    ("a page after", lambda pages, _: [*pages, ["# Annex", "Nothing more."]], set()),
    ("pages in another order", lambda pages, _: [pages[0], pages[2], pages[1]], set()),
    ("a picture gone", lambda pages, _: [pages[0], [pages[1][0], *pages[1][3:]], pages[2]], {"caption"}),
    ("a picture twice", _second_picture, set()),
    ("a section gone", lambda pages, _: [pages[0][:3], *pages[1:]], {"first note"}),
    ("the other section gone", lambda pages, _: [pages[0], pages[1][:3], pages[2]], set()),
    ("another title", lambda pages, number: [pages[0], [f"# Upkeep {number}", *pages[1][1:]], pages[2]], set()),
    ("a second table", lambda pages, _: [*pages, ["# Annex", [["Screw", "Torque"], ["M6", "1 Nm"]]]], set()),
    ("other words", lambda pages, _: [[*pages[0][:1], "Entirely other words.", *pages[0][2:]], *pages[1:]], set()),
]
"""Twelve revisions, each with what it takes away of what is corrected."""


@pytest.mark.slow
def test_corrections_survive_revisions_and_never_land_elsewhere(tmp_path: Path) -> None:
    workspace = open_workspace(str(write_corpus(tmp_path)))
    for number in range(len(REVISIONS)):
        write(tmp_path / "pdfs" / f"{number}.pdf", manual(number))
    published_version(workspace)
    expected: dict[str, str] = {}
    for number in range(len(REVISIONS)):
        for page, what, kind, value in (
            (1, "Mounting", CorrectionKind.TITLE, f"Fitting {number}"),
            (1, "Note", CorrectionKind.TITLE, f"Hint {number}"),
            (1, "Screw", CorrectionKind.CELL, f"{number}7 Nm"),
            (2, "Figure 1", CorrectionKind.CAPTION, f"Right {number}"),
            (3, "Figure 2", CorrectionKind.DESCRIPTION, f"A quodpart {number}"),
            (3, "Warning", CorrectionKind.KIND, "heading"),
        ):
            found = [part for part in parts(workspace, f"{number}.pdf", page) if kind in part.kinds and what in part.text]
            assert len(found) == 1, (number, what, found)
            cell = 1 if kind is CorrectionKind.CELL else -1
            made = correct_part(
                workspace.store,
                "manuals",
                f"{number}.pdf",
                page,
                found[0].name,
                kind,
                value,
                by="ada",
                row=cell,
                column=cell,
            )
            expected[made.id] = {"Note": "first note"}.get(what, kind.value)
    for number, (_, revise, _) in enumerate(REVISIONS):
        write(tmp_path / "pdfs" / f"{number}.pdf", revise(manual(number), number))
    version = published_version(workspace)
    assert all(gate.passed for gate in named_manifest(workspace.store, "manuals", version).gates)

    there, lost, wrong = 0, list[str](), list[str]()
    for listed in listed_corrections(workspace.store, "manuals"):
        correction, what = listed.correction, expected[listed.id]
        number = int(correction.source.removesuffix(".pdf"))
        name, _, gone = REVISIONS[number]
        if what in gone:
            wrong += [f"{name}: {what}"] if listed.state != "no longer fits" else []
        else:
            there += 1
            lost += [f"{name}: {what}"] if listed.state != "live" else []
    for number, (name, _, gone) in enumerate(REVISIONS):
        wrong += [f"{name}: {fault}" for fault in _faults(workspace, f"{number}.pdf", number, gone)]
    assert wrong == []
    assert len(lost) / there <= 0.05, lost


def _faults(workspace: Workspace, source: str, number: int, gone: set[str]) -> list[str]:
    """Return what of a document is corrected that shouldn't be, by what stands below or beside it."""
    document = LiveDocument(workspace.store, "manuals", source)
    blocks = [block for block in document.blocks if block.kind != "margin"]
    below = {block.text: following.text for block, following in pairwise(blocks)}
    faults = []
    if f"Hint {number}" in below and below[f"Hint {number}"] != sentence(100 + number):
        faults.append("the other note")
    if any(block.text == f"Fitting {number}" for block in blocks) and "Entirely" not in below[f"Fitting {number}"]:
        faults += [] if below[f"Fitting {number}"] in (sentence(number), "A new line of the revision.") else ["the title"]
    rows = [row for block in blocks for row in block.rows if f"{number}7 Nm" in row]
    faults += [] if rows in ([], [("M6", f"{number}7 Nm")]) else ["the cell"]
    captions = [caption for caption in document.captions.values() if caption == f"Right {number}"]
    faults += [] if len(captions) == ("caption" not in gone) else ["the caption"]
    return faults
