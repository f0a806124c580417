"""The contact sheet of figures and what describes them."""

import re
import shutil
import subprocess
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import app
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.inspection import captions
from pipeline.inspection.captions import Card, SheetFacts, caption_sheet, write_captions
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from schemas.errors import NotFoundError, UserError
from schemas.evidence import Filters, Modality
from schemas.flags import Flag
from schemas.generation import Description
from schemas.ids import figure_file
from schemas.inspection import CaptionSheet
from schemas.retrieval import Query
from schemas.versions import Spent
from tests.endpoint_server import Call, EndpointServer, status
from tests.pipeline.conftest import write_corpus

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _card(number: int, **more: Any) -> Card:
    facts: dict[str, Any] = {
        "id": f"{number:064x}",
        "subject": "figure",
        "tag": f"{number:08d}",
        "source": "pump.pdf",
        "page": number,
        "section": "Maintenance",
        "caption": f"Figure {number}",
        "description": f"The pump number {number}.",
        "described_by": "vlm",
        "flags": (),
    }
    return Card(**facts | more)


def _sheet(cards: list[Card], facts: SheetFacts | None = None, *, flagged: bool = False) -> str:
    facts = facts or SheetFacts("v1")
    return "".join(caption_sheet("manuals", facts, cards, lambda name: f"picture-{name[-1]}", flagged=flagged))


def _articles(page: str) -> list[str]:
    return re.findall(r"<article.*?</article>", page, re.DOTALL)


def test_a_figure_with_all_that_is_known_of_it() -> None:
    made = Description("1", "The pump.", "tiny-vlm-2", 2, 900, 40, money=0.0123)
    (article,) = _articles(_sheet([_card(1, made=made, model="vlm", places=3, flags=("numbers_missing",))]))
    words = " ".join(unescape(re.sub(r"<[^>]+>", " ", article)).split())
    assert "pump.pdf, page 1, and 2 more places" in words
    assert "The pump number 1." in words
    assert "by vlm · tiny-vlm-2 · 2 calls, 900 + 40 tokens · 0.0123" in words
    assert "numbers missing" in words
    assert f"tag 00000001 id {1:064x}" in words
    assert 'src="picture-1"' in article


def test_what_was_refused_is_shown_and_struck_out() -> None:
    made = Description("1", "I'm sorry, I can't\nassist.", "tiny-vlm", 1, 900, 8)
    card = _card(1, description="", described_by="context", flags=("refusal",), made=made, model="vlm")
    (article,) = _articles(_sheet([card]))
    assert '<p class="refused" dir="auto">I&#39;m sorry, I can&#39;t assist.</p>' in article
    assert '<span class="flag refuses">refusal</span>' in article
    assert "by context instead of vlm" in article


def test_nothing_that_a_document_or_a_model_says_is_markup() -> None:
    nasty = "<script>alert(1)</script>\" onload='x'"
    made = Description("1", nasty, nasty, 1, 1, 1)
    card = _card(
        1, caption=nasty, section=nasty, source=nasty, description="", described_by=nasty, flags=(nasty,), made=made
    )
    facts = SheetFacts("v1", models={nasty: nasty})
    facts.described_by[nasty] += 1
    page = _sheet([card], facts)
    assert "<script>alert" not in page
    assert len(re.findall("<script>", page)) == 1
    assert "' onload='" not in page.replace("&#39;", "")


def test_the_summary_counts_all_and_says_what_is_left_out() -> None:
    facts = SheetFacts(
        "v1", flagged=3, models={"vlm": "tiny-vlm r1"}, spent={"vlm": Spent(calls=7, input_tokens=7000, money=0.5)}
    )
    facts.described_by.update({"vlm": 5, "context": 15})
    facts.counts.update(figure=18, page=2)
    facts.refresh = {"vlm": Spent(calls=2, money=0.1)}
    page = _sheet([_card(1)], facts)
    words = " ".join(unescape(re.sub(r"<[^>]+>", " ", page.partition("<main>")[0])).split())
    assert "18 figures, 2 pages, 3 of them flagged. Here are 1, flagged ones first." in words
    assert "context 15" in words
    assert "vlm tiny-vlm r1 5 7 7,000 0 0.5000 2 calls, 0.1000" in words


@pytest.fixture
def described(published: Workspace, endpoint: EndpointServer) -> Workspace:
    """The published corpus, one figure refused by its model's server, the others described."""

    def reply(call: Call) -> Any:
        if "Figure 1: The water pump" in call.prompt:
            return status(400, "bad picture")
        return f"A photograph on a bench, lit from the left, beside a sign that reads {len(call.prompt)} < 9."

    endpoint.replies = reply
    return _described(published, endpoint)


def _described(published: Workspace, endpoint: EndpointServer, more: str = "") -> Workspace:
    """Refresh the corpus with a model that describes its figures."""
    file = yaml.safe_load(published.file.read_text() + more)
    server = {"url": endpoint.url, "retries": 0}
    model = {"kind": "vlm", "model": "tiny-vlm", "revision": "1", "endpoint": server, "price": {"input": 2.0}}
    file["captions"] = {"ocr": "none", "captioner": "vlm", "models": {"vlm": model}}
    published.file.write_text(yaml.safe_dump(file))
    workspace = open_workspace(str(published.file))
    assert refresh(workspace).published
    return workspace


def test_the_sheet_of_a_version(described: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "new" / "sheet.html"
    made = write_captions(described, out)
    page = out.read_text(encoding="utf-8")
    assert (made.figures, made.shown, made.flagged) == (4, 4, 1)
    assert made.described_by == {"vlm": 3, "context": 1}
    assert made.flags == {Flag.FAILED: 1}
    assert (made.spent["vlm"].calls >= 3, made.spent["vlm"].money > 0) == (True, True)
    articles = _articles(page)
    assert len(articles) == page.count("data:image/webp;base64,") == 4
    assert sum("tiny-vlm" in article for article in articles) == 4
    assert len(re.findall(r"tag <code>\d{8}</code>", page)) == 4
    only = write_captions(described, out, flagged=True)
    assert (only.figures, only.shown) == (4, 1)
    assert 'data-flags="failed"' in _articles(out.read_text(encoding="utf-8"))[0]


def test_descriptions_are_compared_with_the_captions_of_the_documents(
    published: Workspace, endpoint: EndpointServer, tmp_path: Path
) -> None:
    echoed = "Figure 1: The water pump"

    def reply(call: Call) -> str:
        said = re.search(rf"{echoed}[^\n]*", call.prompt)
        return said[0] if said else "Two old friends drink coffee beside the sea."

    endpoint.replies = reply
    workspace = _described(published, endpoint, "doc_types: {'pump*': manual}\n")
    out = tmp_path / "sheet.html"
    made = write_captions(workspace, out, compare=True)
    assert made.figures == made.shown == len(made.compared) == 4
    alike = [pair.similarity for pair in made.compared]
    assert alike == sorted(alike)
    *others, same = made.compared
    assert same.similarity == pytest.approx(1.0, abs=1e-3)
    assert same.words == 1.0
    assert same.caption.startswith(echoed)
    assert (same.source, same.doc_type) == ("pump.pdf", "manual")
    assert all(pair.similarity < 0.5 and pair.words < 0.5 for pair in others)
    assert "Here are 4 with a caption in the document" in out.read_text(encoding="utf-8")
    assert "similarity to the caption 1.00, 100 % of its words" in _articles(out.read_text(encoding="utf-8"))[-1]

    done = CliRunner().invoke(app, ["captions", str(workspace.file), "--compare", "--out", str(out)])
    assert re.search(r"vlm: similarity 0\.\d\d to the captions of 4 figures, \d+% of their words", done.output), done.output
    assert "vlm, documents of type manual: " in done.output


def test_figures_without_a_models_description_are_not_compared(published: Workspace, tmp_path: Path) -> None:
    assert write_captions(published, tmp_path / "sheet.html", compare=True).compared == []


def test_a_sheet_has_its_bounds_and_a_lost_picture_costs_only_itself(
    described: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captions, "SHEET_CARDS", 2)
    monkeypatch.setattr(captions, "EMBED_BYTES", 1)
    made = write_captions(described, tmp_path / "sheet.html")
    page = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert (made.figures, made.shown) == (4, 2)
    assert page.count('data-flags="failed"') == 1
    assert (page.count("data:image"), page.count('src="file:///')) == (1, 1)
    figure_id = re.findall(r"id <code>([0-9a-f]{64})", page)[0]
    described.store.delete(figure_file(figure_id))
    assert write_captions(described, tmp_path / "sheet.html").shown == 2
    assert (tmp_path / "sheet.html").read_text(encoding="utf-8").count("no picture here") == 1


def test_a_version_without_captioners_has_a_sheet_too(published: Workspace, tmp_path: Path) -> None:
    made = write_captions(published, tmp_path / "sheet.html")
    assert made.described_by == {"context": 4}
    assert made.spent == {}


def test_pages_and_texts_that_are_described_have_cards_and_a_persons_words_for_them_win(
    published: Workspace, endpoint: EndpointServer, tmp_path: Path
) -> None:
    endpoint.replies = lambda call: (
        f"- A sheet of paper about number {len(call.prompt)}, with a photograph in its middle."
        if call.picture
        else "Upkeep for apprentices, who tighten and oil what turns."
    )
    models = {
        name: {"kind": kind, "model": name, "revision": "1", "endpoint": {"url": endpoint.url, "retries": 0}}
        for name, kind in (("seeing", "vlm"), ("reading", "ocr_llm"))
    }
    described = {"ocr": "none", "models": models, "pages": "seeing", "summaries": "reading"}
    out = tmp_path / "sheet.html"

    def sheet(**more: Any) -> tuple[Workspace, CaptionSheet, dict[tuple[str, str], list[str]]]:
        file = yaml.safe_load(published.file.read_text())
        published.file.write_text(yaml.safe_dump(file | {"captions": described | more}))
        workspace = open_workspace(str(published.file))
        assert refresh(workspace).published
        made = write_captions(workspace, out)
        found: dict[tuple[str, str], list[str]] = {}
        for article in _articles(out.read_text(encoding="utf-8")):
            by, words = re.search(r'data-by="([^"]*)"', article), re.search(r'class="description"[^>]*>([^<]*)', article)
            name = re.search(r"id <code>([0-9a-f]+)", article)
            assert by
            assert name
            found.setdefault((by[1], words[1] if words else ""), []).append(name[1])
        return workspace, made, found

    workspace, made, cards = sheet()
    assert (made.figures, made.pages, made.texts) == (4, 4, len(endpoint.calls) - 4)
    assert made.described_by == {"context": 4, "seeing (pages)": 4, "reading (texts)": made.texts}
    assert (made.spent["seeing (pages)"].calls, made.spent["reading (texts)"].calls) == (4, made.texts)
    assert out.read_text(encoding="utf-8").count("data:image/webp;base64,") == 8
    page = next(names[0] for (by, _), names in cards.items() if by == "seeing (pages)")
    text = next(names[0] for (by, _), names in cards.items() if by == "reading (texts)")
    lines = [
        f"{page[:12]}: The sheet with the blue corner.",
        f"{text}: How to grease the bearing.",
        f"{'f' * 12}: Nothing.",
    ]
    (tmp_path / "corpora" / "better.yaml").write_text("\n".join(lines))
    calls = len(endpoint.calls)
    workspace, made, cards = sheet(corrections="better.yaml")
    assert cards["person (pages)", "The sheet with the blue corner."] == [page]
    assert cards["person (texts)", "How to grease the bearing."] == [text]
    assert made.unmatched == [f"line 3: {'f' * 12}"]
    assert len(endpoint.calls) == calls
    with closing(PublishedCorpus(workspace)) as searched:
        hit = searched.search(Query("grease the bearing", preset="bm25", k=1)).hits[0]
        assert hit.modality == "text"
        assert "grease" not in hit.text
        page_hit = searched.search(
            Query("blue corner", preset="bm25", k=1, filters=Filters(modalities=[Modality.PAGE]))
        ).hits[0]
        assert (page_hit.figure_id, page_hit.text) == (page, "The sheet with the blue corner.")


def test_what_cant_be_written_or_is_not_there(published: Workspace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't write"):
        write_captions(published, tmp_path / "file" / "sheet.html")
    empty = tmp_path / "empty"
    (empty / "pdfs").mkdir(parents=True)
    with pytest.raises(NotFoundError, match="nothing is published yet"):
        write_captions(open_workspace(str(write_corpus(empty))), tmp_path / "sheet.html")


def test_the_command(published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["captions", str(published.file)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "captions-manuals.html").is_file()
    assert "4 of 4 figures" in done.output


# Presses a button, and leaves what is shown where --dump-dom finds it.
PRESS = """<script>
document.querySelector('nav button[data-flag="refusal"]').click();
document.title = [...document.querySelectorAll("article:not([hidden])")].map((card) => card.dataset.by).join();
</script></body>"""


@pytest.mark.live
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome on PATH")
def test_a_button_narrows_the_sheet(tmp_path: Path) -> None:
    cards = [_card(number) for number in range(3)] + [_card(9, described_by="context", flags=("refusal",))]
    file = tmp_path / "sheet.html"
    file.write_text(_sheet(cards).replace("</body>", PRESS), encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}/b",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "<title>context</title>" in done.stdout
    assert ">1 of 4</output>" in done.stdout
