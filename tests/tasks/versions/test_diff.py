"""What changed between two versions."""

from dataclasses import replace
from datetime import UTC, datetime

from schemas.reports import ChangedFigure, NumberChange
from schemas.versions import Counts, LedgerRow, Manifest, ModelCard, Status, VectorSpace
from tasks.versions.diff import NO_FIGURES, VersionFacts, diff, release_note


def _manifest(version: str, **fields: object) -> Manifest:
    facts: dict[str, object] = {
        "version": version,
        "corpus": "manuals",
        "fingerprint": "f",
        "parent": None,
        "created": datetime(2026, 1, 1, tzinfo=UTC),
        "run_id": "r",
        "code_version": "1",
        "keys": {},
        "models": {},
        "spaces": {"text": VectorSpace(model=ModelCard(name="minilm", revision="a"), key="k")},
        "parameters": {"chunks": {"tokens": 220}, "name": "manuals"},
        "counts": Counts(documents=2),
        "collection": "c",
        "timings_s": {"parse": 1.0, "enrich": 2.5},
        "work": {"parsed": 2},
    }
    return Manifest.model_validate(facts | fields)


def _row(source: str, doc_id: str, status: Status = Status.INDEXED) -> LedgerRow:
    return LedgerRow(source, doc_id, 1, "1", status, "k")


def _figure(name: str, source: str = "a.pdf", page: int = 1, caption: str = "") -> ChangedFigure:
    return ChangedFigure(figure_id=name, tag=f"<image:{name}.png>", source=source, page=page, caption=caption)


BASE = VersionFacts(
    manifest=_manifest("v1"),
    sources=[_row("a.pdf", "A"), _row("b.pdf", "B"), _row("c.pdf", "C", Status.QUARANTINED), _row("d.pdf", "D")],
    metrics={"recall_at_10": 0.5, "figure_recall_at_10": None},
    found={"q1": True, "q2": False, "gone": True},
)
NEW = VersionFacts(
    manifest=_manifest(
        "v2",
        spaces={"text": VectorSpace(model=ModelCard(name="minilm", revision="b"), key="l")},
        parameters={"chunks": {"tokens": 64}, "name": "manuals"},
        counts=Counts(documents=3),
        work={"parsed": 1},
    ),
    sources=[_row("a.pdf", "A2"), _row("b.pdf", "B", Status.QUARANTINED), _row("c.pdf", "C"), _row("e.pdf", "E")],
    metrics={"recall_at_10": 0.75, "figure_recall_at_10": 1.0},
    found={"q1": False, "q2": True, "new": True},
)
THIRD = _figure("3", "e.pdf", 7, "Figure 7: The pump")
FIGURES = ([THIRD], 1), ([_figure("1")], 1)


def test_what_became_of_documents_figures_and_questions() -> None:
    difference = diff(BASE, NEW, *FIGURES)
    documents = difference.documents
    assert (documents.added, documents.changed, documents.removed) == (["e.pdf"], ["a.pdf"], ["d.pdf"])
    assert (documents.lost, documents.recovered) == (["b.pdf"], ["c.pdf"])
    new_sources = [_row("a.pdf", "A"), _row("bad.pdf", "X", Status.QUARANTINED), _row("c.pdf", "C", Status.QUARANTINED)]
    quarantined = diff(BASE, replace(NEW, sources=new_sources))
    assert quarantined.documents.quarantined == ["bad.pdf", "c.pdf"]
    assert "## Documents in quarantine: 2\n\n- bad.pdf\n- c.pdf\n" in release_note(quarantined)
    assert (difference.figures_gained, [figure.figure_id for figure in difference.figures_lost]) == ([THIRD], ["1"])
    assert (difference.questions.asked, difference.questions.won, difference.questions.lost) == (2, ["q2"], ["q1"])


def test_figures_of_both_versions_stand_side_by_side() -> None:
    difference = diff(BASE, NEW, *FIGURES)
    assert difference.metrics["recall_at_10"] == NumberChange(before=0.5, now=0.75)
    assert difference.counts["documents"] == NumberChange(before=2, now=3)
    assert difference.work == {"parsed": NumberChange(before=2, now=1), "seconds": NumberChange(before=3.5, now=3.5)}
    assert difference.settings == {"model text": ["minilm a", "minilm b"], "chunks.tokens": [220, 64]}


def test_nothing_changed_between_a_version_and_itself() -> None:
    difference = diff(BASE, BASE)
    assert not any(difference.documents.model_dump(exclude={"quarantined"}).values())
    assert (difference.questions.won, difference.settings) == ([], {})


def test_the_first_version_is_all_new() -> None:
    difference = diff(None, NEW)
    assert (difference.base, difference.documents.added) == (None, ["a.pdf", "b.pdf", "c.pdf", "e.pdf"])
    assert difference.metrics["recall_at_10"] == NumberChange(before=None, now=0.75)
    assert "The first version." in release_note(difference)


def test_the_note_says_it_for_people() -> None:
    note = release_note(diff(BASE, NEW, *FIGURES))
    assert note.startswith("# manuals: v2\n\nCompared with v1.\n")
    assert "## Documents removed: 1\n\n- d.pdf\n" in note
    assert "- `<image:3.png>` e.pdf, page 7: Figure 7: The pump" in note
    assert "- `<image:1.png>` a.pdf, page 1\n" in note
    assert "## Golden questions lost: 1\n\n- q1\n" in note
    assert "- chunks.tokens: 220 → 64" in note
    assert "| recall at 10 | 0.500 | 0.750 |" in note


def test_long_lists_are_cut_and_say_so() -> None:
    many = VersionFacts(_manifest("v3"), [_row(f"{n:02}.pdf", str(n)) for n in range(25)], {}, {})
    note = release_note(diff(None, many))
    assert "- 19.pdf\n- … and 5 more\n" in note


def test_of_very_many_figures_the_first_are_named_and_the_others_counted() -> None:
    difference = diff(BASE, NEW, NO_FIGURES, ([_figure(str(number)) for number in range(25)], 30))
    assert (len(difference.figures_lost), difference.more_figures_lost, difference.more_figures_gained) == (25, 5, 0)
    note = release_note(difference)
    assert "## Figures lost: 30\n" in note
    assert "- … and 10 more\n" in note
