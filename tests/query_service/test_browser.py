"""What a reader does on the web page, in a real browser."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from html import unescape
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from query_service.app import WEB, create_app
from query_service.serve import listen
from schemas.evidence import Filters, PageRange
from schemas.overview import SearchPreset
from tests.query_service.stand_in import DOC_ID, FIGURE_ID, LIVE, OTHER_ID, StandIn
from tests.tiny_models import draw

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome on PATH"),
]

# The reader's hand. The page's policy lets scripts in from its own service only, so it is served from there.
WANTED = """
const asked = new URLSearchParams(location.search); // before the page writes an address of its own
const wanted = asked.getAll("click");
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


def _links_after(corpus: StandIn, clicks: list[str], folder: Path) -> dict[str, str]:
    """Ask a question, click, and return the addresses of the links to PDFs that are shown then, by what they say."""
    links = re.findall(r"<a (id=\"viewer-[^>]*)>(.*?)</a>", _page_after(corpus, clicks, folder))
    return {
        re.sub(r"<.*?>", "", words): unescape(re.findall(r'href="(.*?)"', attributes)[0])
        for attributes, words in links
        if "hidden" not in attributes
    }


def _page_after(
    corpus: StandIn, clicks: list[str], folder: Path, address: str = "q=valve", script: str = "", *flags: str
) -> str:
    """Ask a question, run a script, click, and return what the page has become; ``flags`` are the browser's."""
    app = create_app(lambda _: corpus, lambda: ["pumps"])
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
    assert _links_after(StandIn("pumps"), [place], tmp_path) == {
        "Open the PDF at this page ↗": f"{ORIGINAL}#page=3",
        "PDF with figure tags ↗": f"{TAGGED}#page=3",
    }


def test_both_follow_the_reader_to_the_next_page(tmp_path: Path) -> None:
    links = _links_after(StandIn("pumps"), [".source", "%23viewer[open] %23next"], tmp_path)
    assert list(links.values()) == [f"{ORIGINAL}#page=4", f"{TAGGED}#page=4"]


def test_no_link_leads_to_a_copy_that_the_version_does_not_have(tmp_path: Path) -> None:
    links = _links_after(StandIn("pumps", tagged=False), [".source"], tmp_path)
    assert links == {"Open the PDF at this page ↗": f"{ORIGINAL}#page=3"}


def test_words_of_a_document_never_become_markup(tmp_path: Path) -> None:
    html = _page_after(StandIn("pumps"), [], tmp_path)
    assert "&lt;b&gt;Turn&lt;/b&gt; the valve." in html
    assert "<b>Turn" not in html


WATCH = """
addEventListener("error", (event) => document.body.setAttribute("data-failed", event.message));
addEventListener("unhandledrejection", (event) => document.body.setAttribute("data-failed", String(event.reason)));
"""


def test_similar_figures_are_shown_below_a_figure_and_each_leads_on(tmp_path: Path) -> None:
    corpus = StandIn("pumps")
    corpus.pixels = draw(1)
    asked = ["figure .picture", "%23lightbox[open] %23similar-ask"]
    html = _page_after(corpus, asked, tmp_path)
    assert "Figures that show the like" in html
    assert re.search(r'aria-label="Show Figure (<|&lt;)2(>|&gt;), pump.pdf, page 5"', html)
    assert f"figures/{OTHER_ID}?version={LIVE}" in html
    assert [one["by"] for one in corpus.asked if "like" in one] == ["vector"]
    html = _page_after(corpus, [*asked, "%23similar-figures .picture"], tmp_path)
    assert re.search(r'<h2 id="lightbox-caption">Figure (<|&lt;)2(>|&gt;)</h2>', html)
    assert "See it on its page (page 5)" in html
    html = _page_after(corpus, [*asked, "%23similar-otherwise:not([hidden])"], tmp_path)
    assert "Figures that look alike from afar" in html
    assert corpus.asked[-1]["by"] == "hash"


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
    ids=["asked", "page", "figure", "similar", "filters", "more filters", "home"],
)
def test_no_script_of_the_page_fails(clicks: list[str], tmp_path: Path) -> None:
    corpus = StandIn("pumps")
    corpus.pixels = draw(1)  # a figure that can't be shown can't be clicked on
    html = _page_after(corpus, clicks, tmp_path)
    assert "data-failed" not in html


def test_a_failing_script_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CLICK", 'document.body.innerHTML = "<b>markup</b>";')
    html = _page_after(StandIn("pumps"), [], tmp_path)
    assert "data-failed" in html, "the policy lets no script make markup of a text"
    assert "<b>markup" not in html


def test_a_table_is_drawn_of_its_cells_with_its_figures_in_them(tmp_path: Path) -> None:
    html = _page_after(StandIn("pumps", table=True), [], tmp_path)
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
    corpus = StandIn("pumps", text="𝛼 <b>Turn</b> the *valve* slowly.\n\nAnother <i>line</i>.")
    html = _page_after(corpus, [], tmp_path, "q=valve&sentences=1&group=page")
    assert (
        '<p dir="auto"><span class="nearest">𝛼 &lt;b&gt;Turn&lt;/b&gt; the </span>'
        '<span class="nearest"><mark>valve</mark></span> slowly.</p><p dir="auto">Another &lt;i&gt;line&lt;/i&gt;.</p>'
    ) in html
    assert "2 more on this page" in html


def test_words_that_matched_are_marked_in_the_cells_of_a_table(tmp_path: Path) -> None:
    html = _page_after(StandIn("pumps", table=True, text="It *Turns* so"), [], tmp_path)
    assert "&lt;i&gt;<mark>turns</mark>&lt;/i&gt;" in html


def _filters(corpus: StandIn) -> list[object]:
    """Return what the last answer and the last search were narrowed to."""
    last = {("answer" if "question" in asked else "search"): asked for asked in corpus.asked if "filters" in asked}
    return [last["answer"]["filters"], last["search"]["filters"]]


def test_filters_of_the_address_narrow_the_answer_and_the_evidence_and_are_shown(tmp_path: Path) -> None:
    corpus = StandIn("pumps")
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
    corpus = StandIn("pumps")
    _page_after(corpus, [".chip button", ".chip button"], tmp_path, "q=valve&section=Service&phrase=oil+filter")
    assert _filters(corpus) == [Filters(), Filters()]


def test_what_a_question_quotes_is_offered_as_a_phrase(tmp_path: Path) -> None:
    corpus = StandIn("pumps")
    _page_after(corpus, ["%23documents > .link"], tmp_path, "q=What+is+%22the+valve%22+of+the+5%22+pipe+and+3%22+pipe?")
    searched = [asked["filters"] for asked in corpus.asked if "query" in asked]
    assert searched == [Filters(), Filters(phrases=["the valve"])]


# A picture as a reader gives it: a file of the figure that the service serves, or words in a file of text.
GIVEN = """
// The browser's virtual time waits for requests, but not for a picture to be decoded.
const until = async (found) => { while (!found()) await fetch("healthz"); };
const given = new DataTransfer();
const way = asked.get("way");
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


def _with_pictures() -> StandIn:
    corpus = StandIn("pumps")
    corpus.pixels = draw(1)
    corpus.ways = [BY_WORDS, *BY_PICTURES]
    return corpus


def _searches(corpus: StandIn) -> list[tuple[object, object, object]]:
    return [(asked["query"], asked["preset"], asked.get("picture")) for asked in corpus.asked if "query" in asked]


@pytest.mark.parametrize("way", ["choose", "drop", "paste"])
def test_a_picture_is_searched_by_alone_and_its_preview_shown(way: str, tmp_path: Path) -> None:
    corpus = _with_pictures()
    html = _page_after(corpus, [], tmp_path, f"way={way}", GIVEN)
    assert _searches(corpus) == [("", None, corpus.pixels)]
    assert not [asked for asked in corpus.asked if "question" in asked], "answers are of words"
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
        ("valve", None, corpus.pixels),
        ("valve", "unified", corpus.pixels),
        ("valve", "unified", None),
    ]
    assert re.search(r'<div id="picture" class="given" hidden="">', html)
    assert re.findall(r'name="preset" value="(.*?)"', html) == ["", "image", "unified"]


def test_a_version_without_vectors_of_pictures_says_so_in_a_line_that_names_the_setting(tmp_path: Path) -> None:
    corpus = _with_pictures()
    corpus.ways = [BY_WORDS]
    html = _page_after(corpus, [], tmp_path, "way=choose", GIVEN)
    assert "This version can't be searched by a picture: name a model of pictures as embeddings.image" in html


def test_a_file_that_is_no_picture_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    corpus = _with_pictures()
    html = _page_after(corpus, [], tmp_path, "way=words", GIVEN)
    assert "“notes.txt” can’t be read as a picture; PNG, JPEG, WebP, GIF and BMP can." in html
    assert _searches(corpus) == []


def test_languages_are_a_filter_by_name_where_a_version_has_several(tmp_path: Path) -> None:
    corpus = StandIn("pumps")
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
    corpus = StandIn("pumps", labels=["iv", None])
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
for (const name of asked.getAll("colour")) {
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
    html = _page_after(StandIn("pumps"), [], folder, address, COLOURS, scheme)
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
