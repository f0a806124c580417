"""What a reader does on the web page, in a real browser."""

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from query_service.access import Access, Key, KeyFile, digest, key_line, new_key
from query_service.app import WEB, create_app
from query_service.serve import listen
from schemas.answers import (
    AnswerCounts,
    AnswerEvent,
    AnswerFinished,
    AnswerResult,
    AnswerStarted,
    FigurePart,
    Part,
    PartFinished,
    Round,
    TablePart,
    TextDelta,
    TextPart,
)
from schemas.errors import TransientError
from schemas.evidence import CitedRegion, Filters, PageRange
from schemas.overview import SearchPreset
from tests.query_service.fake_corpus import CITATION, DOC_ID, FIGURE_ID, LIVE, OTHER_ID, FakeCorpus, Released
from tests.tiny_models import draw

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome on PATH"),
]

# The reader's hand. The page's policy lets scripts in from its own service only, so it is served from there.
WANTED = """
const parameters = new URLSearchParams(location.search); // before the page writes an address of its own
const wanted = parameters.getAll("click");
"""
CLICK = """
const step = () => {
  const found = document.querySelector(wanted[0]);
  if (found) { wanted.shift(); found.click(); }
  if (wanted.length) setTimeout(step, 20);
};
step();
"""


@contextmanager
def _serving(app: FastAPI) -> Iterator[str]:
    with listen("127.0.0.1", 0) as bound:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            while thread.is_alive() and not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _links_after(corpus: FakeCorpus, clicks: list[str], folder: Path) -> dict[str, str]:
    """Ask a question, click, and return the addresses of the links to PDFs that are shown then, by what they say."""
    links = re.findall(r"<a (id=\"viewer-[^>]*)>(.*?)</a>", _page_after(corpus, clicks, folder))
    return {
        re.sub(r"<.*?>", "", words): unescape(re.findall(r'href="(.*?)"', attributes)[0])
        for attributes, words in links
        if "hidden" not in attributes
    }


def _page_after(
    corpus: FakeCorpus,
    clicks: list[str],
    folder: Path,
    address: str = "q=valve",
    script: str = "",
    *flags: str,
    release: Callable[[], None] = lambda: None,
    access: Access | None = None,
) -> str:
    """Ask a question, run a script, click, and return what the page has become; ``flags`` are the browser's.

    The script calls ``release`` with a request for ``release``.
    """
    app = create_app({"pumps": corpus}, access=access)
    app.get("/release")(release)
    app.get("/click.js")(lambda: Response(WANTED + script + CLICK, media_type="text/javascript"))
    app.get("/watch.js")(lambda: Response(WATCH, media_type="text/javascript"))
    page = (
        (WEB / "index.html")
        .read_text(encoding="utf-8")
        .replace("<head>", '<head><script src="watch.js"></script>')
        .replace("</head>", '<script src="click.js" type="module"></script></head>')
    )
    app.get("/driven")(lambda: HTMLResponse(page))
    assert BROWSER is not None
    with _serving(app) as place:
        query = "&".join([address, *(f"click={selector}" for selector in clicks)])
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
        command += [*flags, "--virtual-time-budget=10000", "--dump-dom", f"{place}/driven?{query}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


ORIGINAL = f"v1/corpora/pumps/documents/{DOC_ID}.pdf?version={LIVE}"
TAGGED = f"v1/corpora/pumps/documents/{DOC_ID}/tagged.pdf?version={LIVE}"


@pytest.mark.parametrize("place", [".source", ".cite", ".place"], ids=["cited", "mark", "evidence"])
def test_a_cited_page_leads_to_the_original_and_to_the_tagged_copy_there(place: str, tmp_path: Path) -> None:
    assert _links_after(FakeCorpus("pumps"), [place], tmp_path) == {
        "Open the PDF at this page ↗": f"{ORIGINAL}#page=3",
        "PDF with figure tags ↗": f"{TAGGED}#page=3",
    }


def test_both_follow_the_reader_to_the_next_page(tmp_path: Path) -> None:
    links = _links_after(FakeCorpus("pumps"), [".source", "%23viewer[open] %23next"], tmp_path)
    assert list(links.values()) == [f"{ORIGINAL}#page=4", f"{TAGGED}#page=4"]


def test_no_page_beyond_the_last_is_asked_for(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps")
    html = _page_after(corpus, [".source", "%23viewer[open] %23next"], tmp_path)
    assert {call["page"] for call in corpus.files.calls if "page" in call} == {3, 4}
    assert re.search(r'<button[^>]* id="next"[^>]* disabled', html)


def test_no_link_leads_to_a_copy_that_the_version_does_not_have(tmp_path: Path) -> None:
    links = _links_after(FakeCorpus("pumps", tagged=False), [".source"], tmp_path)
    assert links == {"Open the PDF at this page ↗": f"{ORIGINAL}#page=3"}


def test_words_of_a_document_never_become_markup(tmp_path: Path) -> None:
    html = _page_after(FakeCorpus("pumps"), [], tmp_path)
    assert "&lt;b&gt;Turn&lt;/b&gt; the valve." in html
    assert "<b>Turn" not in html


WATCH = """
addEventListener("error", (event) => document.body.setAttribute("data-failed", event.message));
addEventListener("unhandledrejection", (event) => document.body.setAttribute("data-failed", String(event.reason)));
"""


def test_similar_figures_are_shown_below_a_figure_and_each_leads_on(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps")
    corpus.files.pixels = draw(1)
    clicks = ["figure .picture", "%23lightbox[open] %23similar-ask"]
    html = _page_after(corpus, clicks, tmp_path)
    assert "Figures with similar pictures" in html
    assert re.search(r'aria-label="Show Figure (<|&lt;)2(>|&gt;), pump.pdf, page 5"', html)
    assert f"figures/{OTHER_ID}?version={LIVE}" in html
    assert [call["by"] for call in corpus.similar_calls] == ["vector"]
    html = _page_after(corpus, [*clicks, "%23similar-figures .picture"], tmp_path)
    assert re.search(r'<h2 id="lightbox-caption">Figure (<|&lt;)2(>|&gt;)</h2>', html)
    assert "See it on its page (page 5)" in html
    html = _page_after(corpus, [*clicks, "%23similar-switch:not([hidden])"], tmp_path)
    assert "Figures with similar perceptual hashes" in html
    assert corpus.similar_calls[-1]["by"] == "hash"


@pytest.mark.parametrize(
    "clicks",
    [
        [],
        [".source", "%23viewer[open] %23zoom", "%23next", "%23previous", "%23viewer-close"],
        ["figure .picture", "%23lightbox[open] %23lightbox-close"],
        ["figure .picture", "%23lightbox[open] %23similar-ask", "%23similar-figures .picture", "%23lightbox-places button"],
        [".only", ".chip button", "%23presets label:last-child input", "%23modalities label:last-child input"],
        ["%23filter", "%23sentences"],
        ["%23home", "%23suggestions"],
    ],
    ids=["answer", "page", "figure", "similar", "filters", "more filters", "home"],
)
def test_no_script_of_the_page_fails(clicks: list[str], tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps")
    corpus.files.pixels = draw(1)  # a figure that can't be shown can't be clicked on
    html = _page_after(corpus, clicks, tmp_path)
    assert "data-failed" not in html


def test_a_failing_script_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CLICK", 'document.body.innerHTML = "<b>markup</b>";')
    html = _page_after(FakeCorpus("pumps"), [], tmp_path)
    assert "data-failed" in html, "the policy lets no script make markup of a text"
    assert "<b>markup" not in html


def test_a_table_is_drawn_of_its_cells_with_its_figures_in_them(tmp_path: Path) -> None:
    html = _page_after(FakeCorpus("pumps", table=True), [], tmp_path)
    answered, listed = (_cells(found) for found in re.findall(r"<table.*?</table>", html))
    assert [[re.sub(r"<(button|span).*</\1>", "FIGURE", cell) for cell in row] for row in answered] == [
        ["Key", "Does"],
        ["Press FIGURE twice", "&lt;b&gt;runs&lt;/b&gt;"],
    ]
    assert "Figure 1" in answered[1][0]
    assert listed == [["Key", "Does | says"], ["7", "&lt;i&gt;turns&lt;/i&gt;"]]


def _cells(table: str) -> list[list[str]]:
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]


def test_what_matched_is_marked_and_stays_text(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps", text="𝛼 <b>Turn</b> the *valve* slowly.\n\nAnother <i>line</i>.")
    html = _page_after(corpus, [], tmp_path, "q=valve&sentences=1&group=page")
    assert (
        '<p dir="auto"><span class="nearest">𝛼 &lt;b&gt;Turn&lt;/b&gt; the </span>'
        '<span class="nearest"><mark>valve</mark></span> slowly.</p><p dir="auto">Another &lt;i&gt;line&lt;/i&gt;.</p>'
    ) in html
    assert "2 more on this page" in html


def test_words_that_matched_are_marked_in_the_cells_of_a_table(tmp_path: Path) -> None:
    html = _page_after(FakeCorpus("pumps", table=True, text="It *Turns* so"), [], tmp_path)
    assert "&lt;i&gt;<mark>turns</mark>&lt;/i&gt;" in html


def _filters(corpus: FakeCorpus) -> list[object]:
    """Return the filters of the last answer and the last search."""
    return [corpus.answer_queries[-1].filters, corpus.queries[-1].filters]


def test_filters_of_the_address_narrow_the_answer_and_the_evidence_and_are_shown(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps")
    given = "document=pump.pdf&source=phones/**&section=Service&pages=3-9&pages=12-&pages=x&pages=9-3&phrase=oil+filter"
    html = _page_after(corpus, [], tmp_path, f"q=valve&{given}&figures=with&since=2024-01-31&until=soon")
    expected = Filters(
        documents=["pump.pdf"],
        sources=["phones/**"],
        sections=["Service"],
        page_ranges=[PageRange(first=3, last=9), PageRange(first=12)],
        phrases=["oil filter"],
        has_figure=True,
        since=date(2024, 1, 31),
    )
    assert _filters(corpus) == [expected, expected]
    chips = re.findall(r'<span class="chip"><span[^>]*>(.*?)</span>', html)
    assert chips == [
        *("Only pump.pdf", "Only phones/**", "Section Service", "Pages 3-9", "Pages 12-", "“oil filter”"),
        *("With a figure", "From 2024-01-31"),
    ]


def test_a_filter_is_taken_away_by_its_chip(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps")
    _page_after(corpus, [".chip button", ".chip button"], tmp_path, "q=valve&section=Service&phrase=oil+filter")
    assert _filters(corpus) == [Filters(), Filters()]


def test_what_a_question_quotes_is_offered_as_a_phrase(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps")
    _page_after(corpus, ["%23documents > .link"], tmp_path, "q=What+is+%22the+valve%22+of+the+5%22+pipe+and+3%22+pipe?")
    assert [query.filters for query in corpus.queries] == [Filters(), Filters(phrases=["the valve"])]


# A picture as a reader gives it: a file of the figure that the service serves, or words in a file of text.
GIVEN = """
// The browser's virtual time waits for requests, but not for a picture to be decoded.
const until = async (found) => { while (!found()) await fetch("healthz"); };
const given = new DataTransfer();
const way = parameters.get("way");
given.items.add(way === "words"
  ? new File(["words"], "notes.txt", { type: "text/plain" })
  : new File([await (await fetch("v1/corpora/pumps/figures/FIGURE")).blob()], "photo.png", { type: "image/png" }));
await until(() => document.querySelector("#corpus option"));
if (way === "drop") dispatchEvent(new DragEvent("drop", { dataTransfer: given, cancelable: true }));
else if (way === "paste") dispatchEvent(new ClipboardEvent("paste", { clipboardData: given, cancelable: true }));
else {
  document.querySelector("#picture-file").files = given.files;
  document.querySelector("#picture-file").dispatchEvent(new Event("change"));
}
await until(() => document.querySelector(".notice.wrong, #picture:not([hidden])"));
await until(() => document.querySelector(".notice.wrong, .hit-head"));
""".replace("FIGURE", FIGURE_ID)

BY_WORDS = SearchPreset(name="pages", label="Pages", sentence="by words")
BY_PICTURES = [
    SearchPreset(name="image", label="Pictures", sentence="by pictures", takes_picture=True),
    SearchPreset(name="unified", label="Pictures and words", sentence="by both", takes_picture=True),
]


def _with_pictures() -> FakeCorpus:
    corpus = FakeCorpus("pumps")
    corpus.files.pixels = draw(1)
    corpus.search_presets = [BY_WORDS, *BY_PICTURES]
    return corpus


def _searches(corpus: FakeCorpus) -> list[tuple[object, object, object]]:
    return [(query.text, query.preset, query.picture) for query in corpus.queries]


@pytest.mark.parametrize("way", ["choose", "drop", "paste"])
def test_a_picture_is_searched_by_alone_and_its_preview_shown(way: str, tmp_path: Path) -> None:
    corpus = _with_pictures()
    html = _page_after(corpus, [], tmp_path, f"way={way}", GIVEN)
    assert _searches(corpus) == [("", None, corpus.files.pixels)]
    assert not corpus.answer_queries, "answers are of words"
    assert re.search(r'<div id="picture" class="given">', html), "not hidden"
    assert "photo.png" in html
    assert re.findall(r'name="preset" value="(.*?)"', html) == ["image", "unified"], "those that look at pictures"
    assert "data-failed" not in html


def test_a_picture_goes_with_the_words_until_it_is_removed(tmp_path: Path) -> None:
    corpus = _with_pictures()
    clicks = ["%23presets label:last-child input", "%23picture-remove"]
    html = _page_after(corpus, clicks, tmp_path, "q=valve&way=choose", GIVEN)
    assert _searches(corpus) == [
        ("valve", None, None),
        ("valve", None, corpus.files.pixels),
        ("valve", "unified", corpus.files.pixels),
        ("valve", "unified", None),
    ]
    assert re.search(r'<div id="picture" class="given" hidden="">', html)
    assert re.findall(r'name="preset" value="(.*?)"', html) == ["", "image", "unified"]


def test_a_version_without_vectors_of_pictures_says_so_in_a_line_that_names_the_setting(tmp_path: Path) -> None:
    corpus = _with_pictures()
    corpus.search_presets = [BY_WORDS]
    html = _page_after(corpus, [], tmp_path, "way=choose", GIVEN)
    assert "This version can't be searched by a picture: name a model of pictures as embeddings.image" in html


def test_a_file_that_is_no_picture_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    corpus = _with_pictures()
    html = _page_after(corpus, [], tmp_path, "way=words", GIVEN)
    assert "“notes.txt” can’t be read as a picture; PNG, JPEG, WebP, GIF and BMP can." in html
    assert _searches(corpus) == []


def test_languages_are_a_filter_by_name_where_a_version_has_several(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps")
    corpus.languages = {"en": 7, "de": 2, "ar": 1}
    html = _page_after(corpus, [], tmp_path, "q=valve&language=de&language=<x>")
    assert _filters(corpus) == [Filters(languages=["de"]), Filters(languages=["de"])]
    assert re.findall(r'<span class="chip"><span[^>]*>(.*?)</span>', html) == ["German"]
    choices = re.findall(r'<select id="language">(.*?)</select>', html)[0]
    assert re.findall(r">([^<]+)</option>", choices) == ["Any", "Arabic (1)", "English (7)"]
    assert '<label id="language-filter">' in html
    corpus.languages = {"en": 7}
    assert '<label id="language-filter" hidden="">' in _page_after(corpus, [], tmp_path)


def test_pages_are_named_as_they_are_printed_and_opened_as_the_pdf_counts_them(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps", labels=["iv", None])
    html = _page_after(corpus, [".source", "%23viewer[open] %23next"], tmp_path)
    assert "Page iv (PDF page 3)" in re.findall(r'<span class="cited-page">(.*?)</span>', html)
    assert "pump.pdf, pages iv–4 (PDF pages 3–4)" in html
    assert "PDF page 4" in re.findall(r'<span id="page-number"[^>]*>(.*?)</span>', html)
    assert ">Back to page iv (PDF page 3)</button>" in html
    assert f'href="{ORIGINAL}#page=4"' in html


# Every colour of the style sheet as the browser draws it, however it is written there.
COLOURS = """
const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const drawn = document.createElement("i");
document.body.append(drawn);
for (const name of parameters.getAll("colour")) {
  drawn.style.backgroundColor = `var(--${name})`; // transparent where the style sheet has no such colour
  pen.clearRect(0, 0, 1, 1);
  pen.fillStyle = getComputedStyle(drawn).backgroundColor;
  pen.fillRect(0, 0, 1, 1);
  document.body.setAttribute(`data-${name}`, pen.getImageData(0, 0, 1, 1).data.join());
}
document.body.setAttribute("data-is-dark", matchMedia("(prefers-color-scheme: dark)").matches);
"""

BACKGROUNDS = ("paper", "sheet", "sunk")
TEXTS = [
    *((ink, background) for ink in ("ink", "muted", "accent", "accent-deep") for background in BACKGROUNDS),
    *(("on-accent", "accent"), ("on-accent", "accent-deep"), ("on-marker", "marker"), ("on-marker", "marker-deep")),
    *(("wrong", "wrong-soft"), ("ink", "wrong-soft")),
]
BOUNDS = [("edge", "paper"), ("edge", "sheet")]

Colour = tuple[int, int, int]


def _luminance(colour: Colour) -> float:
    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: Colour, other: Colour) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _colours(folder: Path, *, dark: bool) -> dict[str, Colour]:
    names = sorted({name for pair in TEXTS + BOUNDS for name in pair})
    address = "&".join(f"colour={name}" for name in names)
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    html = _page_after(FakeCorpus("pumps"), [], folder, address, COLOURS, scheme)
    assert f'data-is-dark="{str(dark).lower()}"' in html
    found: dict[str, Colour] = {}
    for name in names:
        drawn = re.search(rf'data-{name}="(\d+),(\d+),(\d+),255"', html)
        assert drawn, f"--{name} is no opaque colour"
        found[name] = (int(drawn[1]), int(drawn[2]), int(drawn[3]))
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_and_controls_can_be_told_from_their_background(dark: bool, tmp_path: Path) -> None:
    """WCAG 2.2 AA: 4.5 for text, 3 for what bounds a control."""
    colours = _colours(tmp_path, dark=dark)
    for pairs, least in ((TEXTS, 4.5), (BOUNDS, 3)):
        contrasts = {pair: _contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
        assert {pair: contrast for pair, contrast in contrasts.items() if contrast < least} == {}


MODEL = "tiny-llm"
FIGURE = FigurePart(
    figure_id=FIGURE_ID, tag="<image:12345678.png>", caption="The valve", page=4, bbox=(5, 6, 7, 8), citations=[1]
)
CITED = CITATION.model_copy(
    update={
        "title": "Pump <7>",
        "regions": [CitedRegion(page=3, bbox=(1.0, 2.0, 3.0, 4.0), label="iv")],
        "pdf_link": f"/{ORIGINAL}#page=3",
    }
)
STARTED = AnswerStarted(version=LIVE, preset="ilt", model=MODEL, citations=[CITED])


def _answer(parts: Sequence[Part], **rest: Any) -> AnswerFinished:
    return AnswerFinished(result=AnswerResult(version=LIVE, abstained=False, parts=list(parts), citations=[CITED], **rest))


def _answering(*events: AnswerEvent) -> FakeCorpus:
    corpus = FakeCorpus("pumps")
    corpus.files.pixels = draw(1)
    corpus.streams["valve"] = lambda _: iter(events)
    return corpus


# Releases an event of the answer whenever the page has drawn the last one, and keeps what was to be read each time.
RELEASE = """
const parts = document.querySelector("#parts");
const seen = [];
const look = () => {
  seen.push(parts.textContent);
  document.body.setAttribute("data-seen", JSON.stringify(seen));
  for (const drawn of parts.querySelectorAll("figure, p")) drawn.setAttribute("data-first", drawn.dataset.first ?? seen.length);
  looked();
  fetch("release");
};
new MutationObserver(look).observe(parts, { childList: true, subtree: true, characterData: true });
if (parts.hasChildNodes()) look();
"""


def _seen(html: str) -> list[str]:
    found = re.search(r'data-seen="(.*?)"', html)
    assert found
    read: list[str] = json.loads(unescape(found[1]))
    return read


def _parts(html: str) -> str:
    found = re.search(r'<div id="parts" class="parts">(.*?)</div>\s*<div id="provenance"', html, re.DOTALL)
    assert found
    return found[1]


def _words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def _streamed(events: Released, folder: Path, looked: str = "") -> str:
    """Ask for an answer whose events come one after the other, and return what the page has become."""
    corpus = _answering()
    corpus.streams["valve"] = events
    script = f"const looked = () => {{ {looked} }};{RELEASE}"
    return _page_after(corpus, [], folder, "q=valve", script, release=events.release)


FIRST = TextPart(text="Turn <b>the</b> valve.", citations=[1])
SECOND = TextPart(text="Then wait.", citations=[], continues=True)


def test_an_answer_is_shown_while_it_is_written_and_what_is_finished_stays(tmp_path: Path) -> None:
    events = Released(
        STARTED,
        TextDelta(part=0, text="Turn <b>"),
        TextDelta(part=0, text="the</b> "),
        TextDelta(part=0, text="valve."),
        PartFinished(part=0, value=FIRST),
        PartFinished(part=1, value=FIGURE),
        TextDelta(part=2, text="Then"),
        TextDelta(part=2, text=" wait."),
        PartFinished(part=2, value=SECOND),
        _answer([FIRST, FIGURE, SECOND], model=MODEL, counts=AnswerCounts(uncited_sentences=1)),
    )
    html = _streamed(events, tmp_path)
    seen = _seen(html)
    assert [each.removesuffix("Writing") for each in seen[:8]] == [
        *("", "", "Turn <b>", "Turn <b>the</b>", "Turn <b>the</b> valve.", "Turn <b>the</b> valve.\u00a01"),
        *(f"Turn <b>the</b> valve.\u00a01The valve\u00a01{more}" for more in ("", "Then")),
    ]
    assert all(each.endswith("Writing") for each in seen[1:-1])
    assert seen[-1].startswith("Turn <b>the</b> valve.\u00a01The valve\u00a01Then wait.\u00a0?")
    assert not [each for each in seen if "<image" in each]
    parts = _parts(html)
    figure, *_ = re.findall(r'<figure[^>]*data-first="(\d+)"', parts)
    assert int(figure) < len(seen), "the finished figure is the element that was drawn first"
    assert "data-failed" not in html


def test_a_question_in_place_of_another_ends_it_and_nothing_of_it_is_shown(tmp_path: Path) -> None:
    events = Released(STARTED, TextDelta(part=0, text="Turn"), *[TextDelta(part=0, text=" nothing")] * 50)
    html = _streamed(
        events,
        tmp_path,
        """
        if (!parts.textContent.includes("Turn") || document.querySelector("#question").value === "other") return;
        document.querySelector("#question").value = "other";
        document.querySelector("#ask").requestSubmit();
        """,
    )
    assert events.has_stopped.wait(timeout=10)
    assert _words(_parts(html)) == "Service Turn the valve. 1 Figure 1 1"
    assert not [each for each in _seen(html) if "nothing" in each]
    assert "could not be answered" not in html


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ([TransientError("the index does not answer")], "The index does not answer"),
        ([ZeroDivisionError("a secret")], "Something went wrong here; the service's log says what"),
        ([], "The connection broke before the answer was complete."),
    ],
    ids=["error", "bug", "cut"],
)
def test_an_answer_that_breaks_off_is_replaced_by_the_reason(end: list[Exception], line: str, tmp_path: Path) -> None:
    html = _streamed(Released(STARTED, TextDelta(part=0, text="Turn"), PartFinished(part=0, value=FIRST), *end), tmp_path)
    assert any("valve" in each for each in _seen(html))
    assert _words(_parts(html)) == f"This question could not be answered {line} Try again"
    assert "data-failed" not in html


EXTRACTED: list[Part] = [
    TextPart(text="Fitting <i>it</i>", citations=[1], style="heading"),
    TextPart(text="𝛼 Turn the valve. Then wait.", citations=[1], marked=[(2, 17)]),
    TextPart(text="1. Open <b>it</b>.", citations=[1], style="item"),
    TextPart(text="• Close it.", citations=[1], style="item", marked=[(2, 11)]),
    TextPart(text="if x:\n    <s>run</s>", citations=[1], style="code"),
    TextPart(text="Another paragraph.", citations=[1], folded=True),
    FIGURE.model_copy(update={"folded": True}),
]


def test_the_parts_of_a_passage_are_drawn_by_their_style_and_its_rest_is_folded(tmp_path: Path) -> None:
    html = _page_after(_answering(_answer(EXTRACTED)), [], tmp_path)
    parts = _parts(html)
    assert '<h3 dir="auto">Fitting &lt;i&gt;it&lt;/i&gt;</h3>' in parts
    assert '<p dir="auto">𝛼 <mark>Turn the valve.</mark> Then wait.</p>' in parts
    items = re.findall(r"<li.*?</li>", parts)
    assert [_words(item) for item in items] == ["1. Open <b>it</b>.", "• Close it."]
    assert "<mark>Close it.</mark>" in items[1]
    assert "<code>if x:\n    &lt;s&gt;run&lt;/s&gt;</code></pre>" in parts
    shown, folded = parts.split("<details")
    assert _words(folded).endswith("Show the rest of the passage Another paragraph. The valve 1")
    assert " open" not in folded.split(">")[0]
    assert shown.count('class="cite"') == 1, "behind what is shown of the passage"
    assert "data-failed" not in html


def test_what_is_folded_opens(tmp_path: Path) -> None:
    html = _page_after(_answering(_answer(EXTRACTED)), ["%23parts summary"], tmp_path)
    assert re.search(r'<details class="more" open=""><summary>Show less</summary>', html)


TABLE = TablePart(
    rows=[["Key", "Does"], ["1", "stops"], ["2", "<b>runs</b>"], ["3", "waits"]], figures=[], citations=[1], key_rows=[2]
)


def test_a_table_shows_the_rows_that_answer_and_the_others_on_demand(tmp_path: Path) -> None:
    def rows(html: str) -> list[str]:
        return [_words(row) for row in re.findall(r'<tr(?: class="[^"]*")?>.*?</tr>', _parts(html))]

    html = _page_after(_answering(_answer([TABLE])), [], tmp_path)
    assert rows(html) == ["Key Does", "2 <b>runs</b>"]
    assert re.search(r'aria-expanded="false">Show all 3 rows<', html)
    html = _page_after(_answering(_answer([TABLE])), ["%23parts .below button"], tmp_path / "again")
    assert rows(html) == ["Key Does", "1 stops", "2 <b>runs</b>", "3 waits"]
    assert re.search(r'aria-expanded="true">Show only the rows that answer<', html)


def test_a_reader_is_told_who_wrote_an_answer_and_what_has_no_source(tmp_path: Path) -> None:
    rounds = [Round(query=query, evidence_ids=["e1"], new=1) for query in ("valve", "valve <torque>")]
    counts = AnswerCounts(uncited_sentences=1, unknown_tags=2)
    html = _page_after(
        _answering(STARTED, _answer([FIRST, SECOND], model=MODEL, counts=counts, rounds=rounds)), [], tmp_path
    )
    parts = _parts(html)
    assert _words(parts) == "Turn <b>the</b> valve. 1 Then wait. ? (no source is cited for this)"
    assert parts.count("<p ") == 1, "sentences of one paragraph"
    assert 'title="No source is cited for this"' in parts
    text = _words(re.findall(r'<div id="provenance".*?</div>', html, re.DOTALL)[0])
    assert text.startswith(
        "Written by tiny-llm from the cited passages; check them. 1 sentence without a source, 2 unknown figures left out. "
        "Searched 2 times valve valve <torque> From the version of"
    )


def test_sentences_of_one_step_are_one_item(tmp_path: Path) -> None:
    steps = [FIRST.model_copy(update={"text": "1. Turn it.", "style": "item"}), SECOND.model_copy(update={"style": "item"})]
    html = _page_after(_answering(STARTED, _answer(steps, model=MODEL)), [], tmp_path)
    items = re.findall(r"<li.*?</li>", _parts(html))
    assert [_words(item) for item in items] == ["1. Turn it. 1 Then wait. ? (no source is cited for this)"]


def test_an_answer_without_a_model_says_why_or_that_it_is_not_sure(tmp_path: Path) -> None:
    result = _answer([FIRST, SECOND], unsure=True, note="the model does not answer")
    html = _page_after(_answering(result), [], tmp_path)
    text = "The model does not answer Not sure: the nearest passage says"
    assert _words(_parts(html)) == f"{text} Service Turn <b>the</b> valve. 1 Then wait."
    assert "Written by" not in html
    assert "Not sure: the nearest passage with 0 figures and 1 citation." in html


def test_a_citation_names_title_page_and_section_and_leads_to_the_pdf_there(tmp_path: Path) -> None:
    html = _page_after(_answering(_answer([FIRST])), [], tmp_path)
    listed = re.findall(r'<aside id="citations".*?</aside>', html, re.DOTALL)[0]
    assert _words(listed) == "Cited in this answer 1 Pump <7> Page iv (PDF page 3) Service PDF ↗"
    assert f'<a href="{ORIGINAL}#page=3"' in listed
    assert re.search(r'aria-label="Citation 1: Pump (<|&lt;)7(>|&gt;), page iv \(PDF page 3\)"', html)


def _choices(html: str) -> list[str]:
    offered = re.findall(r'<label id="answer-picker"([^>]*)>.*?<select[^>]*>(.*?)</select>', html, re.DOTALL)[0]
    return [] if "hidden" in offered[0] else re.findall(r'<option value="(.*?)"', offered[1])


def test_ways_to_answer_are_offered_where_a_version_has_what_they_need(tmp_path: Path) -> None:
    corpus = FakeCorpus("pumps")
    offered = _choices(_page_after(corpus, [], tmp_path, "q=valve&answer=ilt"))
    assert {"", "ilt", "omgqa-multi"} <= set(offered)
    assert not [name for name in offered if "gold" in name], "a given context is what filters name"
    assert [query.answer for query in corpus.answer_queries] == ["ilt"]
    corpus.lacking = ["retrieval.models.llm, or answer.model"]
    assert _choices(_page_after(corpus, [], tmp_path / "none")) == []


# How wide the page is with everything open where it has 360 pixels. The browser's own windows are not as narrow.
WIDTH = """
document.documentElement.style.width = "360px";
const until = async (found) => { while (!found()) await fetch("healthz"); };
await until(() => document.querySelector("#parts summary"));
document.querySelector("#parts summary").click();
document.querySelector("#answers").value = "ilt";
document.body.setAttribute("data-wide", `${document.body.clientWidth} ${document.body.scrollWidth}`);
"""


def test_names_for_screen_readers_have_what_is_shown_and_landmarks_are_unique(tmp_path: Path) -> None:
    corpus = _answering(_answer([TABLE, TABLE]))
    corpus.documents = 2
    html = _page_after(corpus, [], tmp_path)
    named = re.findall(r'<(button|a)\b[^>]* aria-label="([^"]*)"[^>]*>(.*?)</\1>', html, re.DOTALL)
    shown = [(label, re.sub(r"<.*?>|[^\w ]", "", words).strip()) for _, label, words in named]
    assert "More of this document" in [words for _, words in shown]
    assert [(label, words) for label, words in shown if words.lower() not in label.lower()] == []
    assert html.count('class="table"') == 2
    assert 'role="region"' not in html


def test_nothing_is_wider_than_a_phone(tmp_path: Path) -> None:
    long = "x" * 90
    parts = [
        *EXTRACTED,
        TextPart(text=f"{long}({long})", citations=[1], style="code"),
        TextPart(text=f"1. {long}", citations=[1], style="item"),
        TextPart(text=long, citations=[1], style="heading", folded=True),
        TABLE.model_copy(update={"rows": [["Key", long, long], ["1", long, long], ["2", long, long]]}),
    ]
    corpus = _answering(_answer(parts, model=long, rounds=[Round(query=long, evidence_ids=[], new=0)] * 2))
    html = _page_after(corpus, [], tmp_path, "q=valve", WIDTH, "--window-size=360,800")
    assert re.findall(r'data-wide="(.*?)"', html) == ["360 360"]


GIVE = """
const give = () => {
  const form = document.getElementById("key");
  if (form && !form.hidden && !document.body.dataset.given) {
    document.body.dataset.given = "yes";
    document.getElementById("key-text").value = "%s";
    form.requestSubmit();
  }
  setTimeout(give, 20);
};
give();
"""


@pytest.mark.parametrize("is_known", [True, False])
def test_a_key_is_asked_for_and_sent_with_every_request(
    is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key()
    file = tmp_path / "keys.jsonl"
    file.write_text(key_line(Key(name="reader", sha256=digest(key), corpora=("pumps",))))
    driver = {"/driven", "/click.js", "/watch.js"}
    monkeypatch.setattr("query_service.access._PUBLIC", {"/", *driver})
    corpus = FakeCorpus("pumps")
    corpus.files.pixels = draw(1)
    html = _page_after(
        corpus, [], tmp_path / "browser", script=GIVE % (key if is_known else "wrong"), access=Access(KeyFile(file))
    )
    form = re.findall(r'<form id="key"[^>]*>', html)[0]
    assert ("hidden" in form, 'class="cite"' in html, 'src="blob:' in html) == (is_known, is_known, is_known)
    assert ("The key is not known here" in html) != is_known
    assert key not in html
