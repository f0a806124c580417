"""The page that asks versions and presets a question."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from pipeline.operations.comparison import Answered, ComparedHit, Side
from plugins.pages import search
from schemas.evidence import CitedFigure, CitedRegion, Hit
from schemas.filters import Modality
from tests.pipeline.operations.corpora import REFUSES, publish, version_name, write_corpus, write_version

DAG = "/inset/dags/refresh_pumps"
OLD, NEW = version_name(0), version_name(1)


def chosen(page: str, name: str) -> str:
    """Return the chosen option of a field."""
    (options,) = re.findall(rf'<select name="{name}">(.*?)</select>', page, re.DOTALL)
    found = re.search(r'<option(?: value="([^"]*)")?[^>]* selected', options)
    return found[1] or "" if found else ""


def test_the_live_version_stands_beside_the_newest_or_else_the_previous(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    page = client.get(f"{DAG}/search").text
    assert (chosen(page, "version"), chosen(page, "other_version")) == (OLD, "")
    publish(store, write_version(store, "pumps", 1), before=OLD)
    page = client.get(f"{DAG}/search").text
    assert (chosen(page, "version"), chosen(page, "other_version")) == (NEW, OLD)
    refused = write_version(store, "pumps", 2, gates=[REFUSES])
    store.replace(f"versions/{version_name(3)}/plan.json", b"{}")  # a refresh under way
    page = client.get(f"{DAG}/search").text
    assert (chosen(page, "version"), chosen(page, "other_version")) == (NEW, refused)
    assert chosen(client.get(f"{DAG}/search?version={NEW}&other_version=").text, "other_version") == ""


def test_results_are_loaded_into_the_page_which_opens_no_version(client: TestClient, folder: Path) -> None:
    write_corpus(folder, "pumps", versions=2)  # without any index
    page = client.get(
        f"{DAG}/search", params={"question": "a & b?", "other_version": OLD, "other_preset": "bm25", "k": 5}
    ).text
    (address,) = re.findall(r'data-load="([^"]+)"', page)
    asked = f"question=a+%26+b%3F&amp;version={NEW}&amp;other_version={OLD}&amp;other_preset=bm25&amp;k=5"
    assert address == f"../../dags/refresh_pumps/search-results?{asked}"
    assert "loads its models" in page
    assert chosen(page, "other_preset") == "bm25"
    assert "data-load" not in client.get(f"{DAG}/search").text


def hit(name: str, text: str = "Close the valve.", **other: object) -> Hit:
    facts: dict[str, object] = {"evidence_id": name, "score": 1.0, "modality": Modality.TEXT, "doc_id": "d" * 64}
    facts |= {"source": "pump.pdf", "page": 6, "bbox": (1, 2, 3, 4), "section_path": ["Service", "Valves"]}
    facts |= {"regions": [CitedRegion(page=6, bbox=(1, 2, 3, 4), label="iv")], "text": text, "tagged_text": text}
    facts |= {"figure_refs": [], "caption": ""}
    return Hit.model_validate(facts | other)


def test_two_sides_mark_what_differs(client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(folder, "pumps", versions=2)
    asked = []

    def ask(file: str, question: str, sides: Sequence[Side], k: int) -> list[Answered]:
        asked.append((Path(file).name, question, sides, k))
        figure = CitedFigure(figure_id="f" * 64, number="7", caption="The <valve>", page=7, bbox=(1, 2, 3, 4))
        left = [
            ComparedHit(hit=hit("a", highlights=[(10, 15)], figures=[figure]), rank=1, other=3),
            ComparedHit(hit=hit("b", "<i>text</i>"), rank=2, other=None),
        ]
        right = [ComparedHit(hit=hit("a", modality=Modality.TABLE), rank=3, other=1)]
        return [
            Answered(version=NEW, preset="pages", hits=left, seconds=0.25),
            Answered(version=OLD, preset="image", hits=right, seconds=0.1, problem="it has no <vectors>"),
        ]

    monkeypatch.setattr(search, "ask", ask)
    given: dict[str, str | int] = {
        "question": "valve",
        "version": NEW,
        "other_version": OLD,
        "other_preset": "image",
        "k": 5,
    }
    left, right = re.findall(r"<section.*?</section>", client.get(f"{DAG}/search-results", params=given).text, re.DOTALL)
    assert asked == [("pumps.yaml", "valve", [Side(NEW, None), Side(OLD, "image")], 5)]
    assert [re.findall(r'<span class="badge \w+">([^<]+)', side) for side in (left, right)] == [
        ["2 higher", "only here"],
        ["table", "2 lower"],
    ]
    assert "Close the <mark>valve</mark>." in left
    assert "&lt;i&gt;text&lt;/i&gt;" in left
    assert "page iv (PDF page 6)" in left
    assert f"../../dags/refresh_pumps/pictures/pages/{'d' * 64}/6.png?box=1.0,2.0,3.0,4.0" in left
    assert f'src="../../dags/refresh_pumps/pictures/figures/{"f" * 64}.webp"' in left
    assert "The &lt;valve&gt;" in left
    assert "it has no &lt;vectors&gt;" in right


@pytest.mark.parametrize(
    "given",
    [
        {"question": "", "version": NEW},
        {"question": "x", "version": "../LIVE"},
        {"question": "x", "version": NEW, "preset": "../secret"},
        {"question": "x", "version": NEW, "k": 500},
        {"question": "x" * 2001, "version": NEW},
    ],
)
def test_a_question_has_bounds(client: TestClient, folder: Path, given: dict[str, str | int]) -> None:
    write_corpus(folder, "pumps", versions=2)
    assert client.get(f"{DAG}/search-results", params=given).status_code == 422


def test_a_corpus_without_a_version_has_nothing_to_search(client: TestClient, folder: Path) -> None:
    write_corpus(folder, "pumps")
    page = client.get(f"{DAG}/search").text
    assert "There is no version yet" in page
    assert "<form" not in page


@pytest.mark.parametrize(
    ("text", "marks", "shown"),
    [
        ("short", [], [("short", False)]),
        ("Close the valve.", [(10, 15)], [("Close the ", False), ("valve", True), (".", False)]),
        ("x" * 400, [], [("x" * search.SNIPPET + "…", False)]),
        ("y" * 500 + "valve", [(500, 505)], [("…", False), ("y" * 60, False), ("valve", True)]),
        ("valve" + "z" * 400 + "valve", [(0, 5), (405, 410)], [("valve", True), ("z" * (search.SNIPPET - 5) + "…", False)]),
    ],
)
def test_a_snippet_begins_before_its_first_mark(
    text: str, marks: list[tuple[int, int]], shown: list[tuple[str, bool]]
) -> None:
    assert search.pieces(text, marks) == shown
