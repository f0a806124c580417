"""What a reader does on the web page, in a real browser."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from query_service.access import Access
from query_service.identity import IdentityProvider, ProviderOptions
from query_service.keys import Key, KeyFile, digest, key_line, new_key
from schemas.answers import (
    AnswerCounts,
    AnswerEvent,
    AnswerFinished,
    AnswerResult,
    AnswerStarted,
    FigurePart,
    FollowUp,
    Part,
    PartFinished,
    Round,
    TablePart,
    TextDelta,
    TextPart,
)
from schemas.errors import TransientError
from schemas.evidence import CitedRegion
from schemas.filters import Filters, PageRange
from schemas.reports import SearchPreset
from tests import identity_provider
from tests.browser import CHROMIUM, Browser
from tests.query_service.fake_corpus import CITATION, DOC_ID, FIGURE_ID, LIVE, FakeCorpus, Released
from tests.query_service.web_page import opened, page_after
from tests.tiny_models import draw

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on PATH"),
]


def _links_after(browser: Browser, corpus: FakeCorpus, clicks: list[str]) -> dict[str, str]:
    """Ask a question, click, and return the addresses of the links to PDFs that are shown then, by what they say."""
    links = re.findall(r"<a (id=\"viewer-[^>]*)>(.*?)</a>", page_after(browser, corpus, clicks))
    return {
        re.sub(r"<.*?>", "", words): unescape(re.findall(r'href="(.*?)"', attributes)[0])
        for attributes, words in links
        if "hidden" not in attributes
    }


ORIGINAL = f"v1/corpora/pumps/documents/{DOC_ID}.pdf?version={LIVE}"
TAGGED = f"v1/corpora/pumps/documents/{DOC_ID}/tagged.pdf?version={LIVE}"


@pytest.mark.parametrize("selector", [".source", ".cite", ".place"], ids=["cited", "mark", "evidence"])
def test_a_cited_page_leads_to_the_original_and_to_the_tagged_copy_there(selector: str, browser: Browser) -> None:
    assert _links_after(browser, FakeCorpus("pumps"), [selector]) == {
        "Open the PDF at this page ↗": f"{ORIGINAL}#page=3",
        "PDF with figure tags ↗": f"{TAGGED}#page=3",
    }


def test_both_follow_the_reader_to_the_next_page(browser: Browser) -> None:
    links = _links_after(browser, FakeCorpus("pumps"), [".source", "#viewer[open] #next"])
    assert list(links.values()) == [f"{ORIGINAL}#page=4", f"{TAGGED}#page=4"]


def test_no_page_beyond_the_last_is_asked_for(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    html = page_after(browser, corpus, [".source", "#viewer[open] #next"])
    assert {call["page"] for call in corpus.calls if "page" in call} == {3, 4}
    assert re.search(r'<button[^>]* id="next"[^>]* disabled', html)


def test_no_link_leads_to_a_copy_that_the_version_does_not_have(browser: Browser) -> None:
    links = _links_after(browser, FakeCorpus("pumps", tagged=False), [".source"])
    assert links == {"Open the PDF at this page ↗": f"{ORIGINAL}#page=3"}


def _hit_text(browser: Browser, corpus: FakeCorpus) -> str:
    """Return the HTML from the text of the first hit on, without spans."""
    return re.sub(r"</?span[^>]*>", "", page_after(browser, corpus).partition('class="hit-text')[2])


def test_code_of_a_hit_keeps_its_lines_and_indents(browser: Browser) -> None:
    corpus = FakeCorpus("pumps", text="Write:\n\n  if *x*:\n\n      <b>run</b>\n\nThen 𝛼 wait.")
    corpus.code = "  if x:\n\n      <b>run</b>"
    hit_html = _hit_text(browser, corpus)
    assert '<p dir="auto">Write:</p><pre' in hit_html
    assert "<code>  if <mark>x</mark>:\n\n      &lt;b&gt;run&lt;/b&gt;</code></pre>" in hit_html
    assert '</pre><p dir="auto">Then 𝛼 wait.</p>' in hit_html


def test_code_of_signs_alone_is_whole(browser: Browser) -> None:
    corpus = FakeCorpus("pumps", text="Write:\n\n+ <= ;\n- ^ |\n\nThen *x* waits.")
    corpus.code = "+ <= ;\n- ^ |"
    hit_html = _hit_text(browser, corpus)
    assert "<code>+ &lt;= ;\n- ^ |</code></pre>" in hit_html


def test_two_clicks_say_that_a_figure_is_wrong(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    page = page_after(browser, corpus, [".rating .taking button:last-child", ".rating .why button:nth-child(3)"])
    assert "Thank you." in page
    (sent,) = corpus.feedback
    assert (sent["question"], sent["helpful"], sent["reason"]) == ("valve", False, "wrong_figure")
    assert (sent["version"], sent["figure_ids"], len(str(sent["answer"]))) == (LIVE, [FIGURE_ID], 64)


def test_words_of_a_document_never_become_markup(browser: Browser) -> None:
    html = page_after(browser, FakeCorpus("pumps"))
    assert "&lt;b&gt;Turn&lt;/b&gt; the valve." in html
    assert "<b>Turn" not in html


@pytest.mark.parametrize(
    "clicks",
    [
        [],
        [".source", "#viewer[open] #zoom", "#next", "#previous", "#viewer-close"],
        ["figure .picture", "#lightbox[open] #lightbox-places button"],
        [".only", ".chip button", "#presets label:last-child input", "#modalities label:last-child input"],
        ["#filter", "#sentences"],
        ["#home"],
    ],
    ids=["answer", "page", "figure", "filters", "more filters", "home"],
)
def test_no_script_of_the_page_fails(clicks: list[str], browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    corpus.pixels = draw(1)  # a figure that can't be shown can't be clicked on
    corpus.documents = 2
    corpus.search_presets = [BY_WORDS, *BY_PICTURES]
    page_after(browser, corpus, clicks)
    assert browser.complaints == []


def test_no_script_can_make_markup_of_a_text(browser: Browser) -> None:
    with opened(browser, FakeCorpus("pumps"), ""):
        browser.settled()
        browser.run("void setTimeout(() => { document.body.innerHTML = '<b>markup</b>' })")
        browser.settled()
        assert "<b>markup" not in browser.html
    assert any("TrustedHTML" in complaint for complaint in browser.complaints)
    browser.complaints.clear()


def test_a_table_is_drawn_of_its_cells_with_its_figures_in_them(browser: Browser) -> None:
    html = page_after(browser, FakeCorpus("pumps", table=True))
    answered, listed = (_cells(table_html) for table_html in re.findall(r"<table.*?</table>", html))
    assert [[re.sub(r"<(button|span).*</\1>", "FIGURE", cell) for cell in row] for row in answered] == [
        ["Key", "Does"],
        ["Press FIGURE twice", "&lt;b&gt;runs&lt;/b&gt;"],
    ]
    assert "Figure 1" in answered[1][0]
    assert listed == [["Key", "Does | says"], ["7", "&lt;i&gt;turns&lt;/i&gt;"]]


def _cells(table: str) -> list[list[str]]:
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]


def test_what_matched_is_marked_and_stays_text(browser: Browser) -> None:
    corpus = FakeCorpus("pumps", text="𝛼 <b>Turn</b> the *valve* slowly.\n\nAnother <i>line</i>.")
    html = page_after(browser, corpus, [], "q=valve&sentences=1&group=page")
    assert (
        '<p dir="auto"><span class="nearest">𝛼 &lt;b&gt;Turn&lt;/b&gt; the </span>'
        '<span class="nearest"><mark>valve</mark></span> slowly.</p><p dir="auto">Another &lt;i&gt;line&lt;/i&gt;.</p>'
    ) in html
    assert "2 more on this page" in html


def test_words_that_matched_are_marked_in_the_cells_of_a_table(browser: Browser) -> None:
    html = page_after(browser, FakeCorpus("pumps", table=True, text="It *Turns* so"))
    assert "&lt;i&gt;<mark>turns</mark>&lt;/i&gt;" in html


def _filters(corpus: FakeCorpus) -> list[object]:
    """Return the filters of the last answer and the last search."""
    return [corpus.answer_queries[-1].filters, corpus.queries[-1].filters]


def test_filters_of_the_address_narrow_the_answer_and_the_evidence_and_are_shown(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    params = "document=pump.pdf&source=phones/**&section=Service&pages=3-9&pages=12-&pages=x&pages=9-3&label=iv&phrase=oil+filter"
    html = page_after(browser, corpus, [], f"q=valve&{params}&figures=with&since=2024-01-31&until=soon")
    expected = Filters(
        documents=["pump.pdf"],
        sources=["phones/**"],
        sections=["Service"],
        page_ranges=[PageRange(first=3, last=9), PageRange(first=12)],
        page_labels=["iv"],
        phrases=["oil filter"],
        has_figure=True,
        since=date(2024, 1, 31),
    )
    assert _filters(corpus) == [expected, expected]
    chips = re.findall(r'<span class="chip"><span[^>]*>(.*?)</span>', html)
    assert chips == [
        *("Only pump.pdf", "Only phones/**", "Pages 3-9", "Pages 12-", "Printed page iv", "Section Service"),
        *("With a figure", "From 2024-01-31", "“oil filter”"),
    ]


def test_a_filter_is_taken_away_by_its_chip(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    page_after(browser, corpus, [".chip button", ".chip button"], "q=valve&section=Service&phrase=oil+filter")
    assert _filters(corpus) == [Filters(), Filters()]


def test_what_a_question_quotes_is_offered_as_a_phrase(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    page_after(browser, corpus, ["#documents > .link"], "q=What+is+%22the+valve%22+of+the+5%22+pipe+and+3%22+pipe?")
    assert [query.filters for query in corpus.queries] == [Filters(), Filters(phrases=["the valve"])]


# A picture as a reader gives it: a file of the figure that the service serves, or words in a file of text.
GIVE = """
(async () => {
  const given = new DataTransfer();
  given.items.add("WAY" === "words"
    ? new File(["words"], "notes.txt", { type: "text/plain" })
    : new File([await (await fetch("v1/corpora/pumps/figures/FIGURE")).blob()], "photo.png", { type: "image/png" }));
  if ("WAY" === "drop") dispatchEvent(new DragEvent("drop", { dataTransfer: given, cancelable: true }));
  else if ("WAY" === "paste") dispatchEvent(new ClipboardEvent("paste", { clipboardData: given, cancelable: true }));
  else {
    document.querySelector("#picture-file").files = given.files;
    document.querySelector("#picture-file").dispatchEvent(new Event("change"));
  }
})()
""".replace("FIGURE", FIGURE_ID)


def _given(browser: Browser, corpus: FakeCorpus, gesture: str, clicks: Sequence[str] = (), query: str = "") -> str:
    """Give a picture to search by, click, and return what the page has become."""
    with opened(browser, corpus, query):
        browser.settled()
        browser.run(GIVE.replace("WAY", gesture))
        browser.until("document.querySelector('.notice.wrong, #picture:not([hidden])')")
        browser.settled()
        for selector in clicks:
            browser.click(selector)
            browser.settled()
        return browser.html


BY_WORDS = SearchPreset(name="pages", label="Pages", sentence="by words")
BY_PICTURES = [
    SearchPreset(name="image", label="Pictures", sentence="by pictures", takes_picture=True),
    SearchPreset(name="unified", label="Pictures and words", sentence="by both", takes_picture=True),
]


def _with_pictures() -> FakeCorpus:
    corpus = FakeCorpus("pumps")
    corpus.pixels = draw(1)
    corpus.search_presets = [BY_WORDS, *BY_PICTURES]
    return corpus


def _searches(corpus: FakeCorpus) -> list[tuple[object, object, object]]:
    return [(query.query, query.preset, query.picture) for query in corpus.queries]


@pytest.mark.parametrize("gesture", ["choose", "drop", "paste"])
def test_a_picture_is_searched_by_alone_and_its_preview_shown(gesture: str, browser: Browser) -> None:
    corpus = _with_pictures()
    html = _given(browser, corpus, gesture)
    assert _searches(corpus) == [("", None, corpus.pixels)]
    assert not corpus.answer_queries, "answers are of words"
    assert re.search(r'<div id="picture" class="given">', html), "not hidden"
    assert "photo.png" in html
    assert '<span id="status-answer"></span> <span id="status-evidence">1 hit by Pictures.</span>' in html
    assert re.findall(r'name="preset" value="(.*?)"', html) == ["image", "unified"], "those that look at pictures"


def test_a_picture_goes_with_the_words_until_it_is_removed(browser: Browser) -> None:
    corpus = _with_pictures()
    clicks = ["#presets label:last-child input", "#picture-remove"]
    html = _given(browser, corpus, "choose", clicks, "q=valve")
    assert _searches(corpus) == [
        ("valve", None, None),
        ("valve", None, corpus.pixels),
        ("valve", "unified", corpus.pixels),
        ("valve", "unified", None),
    ]
    assert re.search(r'<div id="picture" class="given" hidden="">', html)
    assert re.findall(r'name="preset" value="(.*?)"', html) == ["", "image", "unified"]


def test_a_version_without_vectors_of_pictures_says_so_in_a_line_that_names_the_setting(browser: Browser) -> None:
    corpus = _with_pictures()
    corpus.search_presets = [BY_WORDS]
    html = _given(browser, corpus, "choose")
    assert "This version can't be searched by a picture: name a model of pictures as embeddings.image" in html


def test_a_file_that_is_no_picture_is_refused_before_it_is_sent(browser: Browser) -> None:
    corpus = _with_pictures()
    html = _given(browser, corpus, "words")
    assert "“notes.txt” can’t be read as a picture; PNG, JPEG, WebP, GIF and BMP can." in html
    assert _searches(corpus) == []


def test_languages_are_a_filter_by_name_where_a_version_has_several(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    corpus.languages = {"en": 7, "de": 2, "ar": 1}
    html = page_after(browser, corpus, [], "q=valve&language=de&language=<x>")
    assert _filters(corpus) == [Filters(languages=["de"]), Filters(languages=["de"])]
    assert re.findall(r'<span class="chip"><span[^>]*>(.*?)</span>', html) == ["German"]
    choices = re.findall(r'<select id="language">(.*?)</select>', html)[0]
    assert re.findall(r">([^<]+)</option>", choices) == ["Any", "Arabic (1)", "English (7)"]
    assert '<label id="language-filter">' in html
    corpus.languages = {"en": 7}
    assert '<label id="language-filter" hidden="">' in page_after(browser, corpus)


def test_types_of_documents_are_a_filter_where_the_corpus_has_any(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    corpus.doc_types = {"data sheet": 3, "manual": 7, "survey": 1}
    with opened(browser, corpus, "q=valve&type=survey"):
        browser.settled()
        browser.click("#filter")
        choose = "document.getElementById('type')"
        browser.run(f"{choose}.value = 'manual'; {choose}.dispatchEvent(new Event('change'))")
        browser.settled()
        html, address = browser.html, browser.run("location.search")
    assert corpus.queries[0].filters == Filters(doc_types=["survey"])
    assert _filters(corpus) == [Filters(doc_types=["survey", "manual"])] * 2
    assert "type=survey&type=manual" in address
    assert re.findall(r'<span class="chip"><span[^>]*>(.*?)</span>', html) == ["Only survey", "Only manual"]
    choices = re.findall(r'<select id="type">(.*?)</select>', html)[0]
    assert re.findall(r">([^<]+)</option>", choices) == ["Any", "data sheet (3)"]
    assert '<label id="type-filter">' in html
    corpus.doc_types = {}
    assert '<label id="type-filter" hidden="">' in page_after(browser, corpus)


def test_pages_are_named_as_they_are_printed_and_opened_as_the_pdf_counts_them(browser: Browser) -> None:
    corpus = FakeCorpus("pumps", labels=["iv", None])
    html = page_after(browser, corpus, [".source", "#viewer[open] #next"])
    assert "Page iv (PDF page 3)" in re.findall(r'<span class="cited-page">(.*?)</span>', html)
    assert "pump.pdf, pages iv–4 (PDF pages 3–4)" in html
    assert "PDF page 4 of 4" in re.findall(r'<span id="page-number"[^>]*>(.*?)</span>', html)
    assert ">Back to page iv (PDF page 3)</button>" in html
    assert f'href="{ORIGINAL}#page=4"' in html


# A colour of the style sheet as the browser draws it, however it is written there.
COLOUR = """
(() => {
  const drawn = document.createElement("i");
  document.body.append(drawn);
  drawn.style.backgroundColor = "var(--NAME)"; // transparent where the style sheet has no such colour
  const pen = document.createElement("canvas").getContext("2d");
  pen.fillStyle = getComputedStyle(drawn).backgroundColor;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
})()
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


def _contrast(first_colour: Colour, second_colour: Colour) -> float:
    light, dark = sorted((_luminance(first_colour), _luminance(second_colour)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _colours(browser: Browser, *, dark: bool) -> dict[str, Colour]:
    colours: dict[str, Colour] = {}
    with opened(browser, FakeCorpus("pumps"), "", dark=dark):
        browser.settled()
        assert browser.run("matchMedia('(prefers-color-scheme: dark)').matches") == dark
        for name in sorted({name for pair in TEXTS + BOUNDS for name in pair}):
            red, green, blue, alpha = browser.run(COLOUR.replace("NAME", name))
            assert alpha == 255, f"--{name} isn't an opaque colour"
            colours[name] = (red, green, blue)
    return colours


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_and_controls_can_be_told_from_their_background(dark: bool, browser: Browser) -> None:
    """WCAG 2.2 AA: 4.5 for text, 3 for what bounds a control."""
    colours = _colours(browser, dark=dark)
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
STARTED = AnswerStarted(version=LIVE, preset="written", model=MODEL, citations=[CITED])


def _answer(parts: Sequence[Part], **fields: Any) -> AnswerFinished:
    fields = {"citations": [CITED], **fields}
    return AnswerFinished(result=AnswerResult(version=LIVE, abstained=False, parts=list(parts), **fields))


def _answering(*events: AnswerEvent) -> FakeCorpus:
    corpus = FakeCorpus("pumps")
    corpus.pixels = draw(1)
    corpus.streams["valve"] = lambda _: iter(events)
    return corpus


def _parts(html: str) -> str:
    match = re.search(r'<div id="parts" class="parts">(.*?)</div>\s*<div id="provenance"', html, re.DOTALL)
    assert match
    return match[1]


def _words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


READ = "document.querySelector('#parts').textContent"


def _streaming(events: Released) -> FakeCorpus:
    """Return a corpus whose answer comes event by event."""
    corpus = _answering()
    corpus.streams["valve"] = events
    return corpus


FIRST = TextPart(text="Turn <b>the</b> valve.", citations=[1])
SECOND = TextPart(text="Then wait.", citations=[], continues=True)


def test_why_nothing_answers_is_shown(browser: Browser) -> None:
    note = "the question seems to be in de, and the documents are in en: ask in en"
    result = AnswerResult(version=LIVE, abstained=True, parts=[], citations=[], note=note)
    html = page_after(
        browser, _answering(AnswerStarted(version=LIVE, preset="extractive"), AnswerFinished(result=result)), []
    )
    assert "Nothing in this version answers that. The question seems to be in de" in _words(_parts(html))


def test_an_answer_is_shown_while_it_is_written_and_what_is_finished_stays(browser: Browser) -> None:
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
    turned = "Turn <b>the</b> valve."
    stages = ["", "Turn <b>", "Turn <b>the</b>", turned, f"{turned}\u00a01", f"{turned}\u00a01The valve\u00a01"]
    stages += [f"{stages[-1]}Then", f"{stages[-1]}Then wait."]
    with opened(browser, _streaming(events)):
        for words in stages:
            events.release()
            browser.until(f"{READ} === {json.dumps(words + 'Writing')}")
            browser.run("document.querySelectorAll('#parts figure').forEach((each) => { each.dataset.first ??= 'yes' })")
        for _ in range(2):
            events.release()
        finished_html = f"{stages[-1]}\u00a0?(no source is cited for this)"
        browser.until(f"{READ} === {json.dumps(finished_html)}")
        browser.settled()
        assert "<image" not in _parts(browser.html)
        assert browser.run("document.querySelector('#parts figure').dataset.first"), "the element that was drawn first"


def test_the_extractive_answer_is_shown_until_the_model_writes(browser: Browser) -> None:
    extractive = _answer([TextPart(text="Close the valve.", citations=[1])]).result
    events = Released(
        STARTED.model_copy(update={"meanwhile": extractive}),
        TextDelta(part=0, text="Turn it."),
        _answer([FIRST], model=MODEL),
    )
    with opened(browser, _streaming(events)):
        for text in ("Close the valve.", "Turn it."):
            events.release()
            browser.until(f"{READ}.includes({text!r}) && {READ}.includes('Writing')")
        assert "Close the valve." not in browser.html
        events.release()
        browser.settled()


def test_citations_of_one_document_stand_together_and_name_it_once(browser: Browser) -> None:
    title = "The Kestrel pump of the second series: installation, service and spare parts"
    other_citations = [
        CITED.model_copy(update={"n": n, "doc_id": doc_id, "title": title})
        for n, doc_id in ((2, "e" * 64), (3, CITED.doc_id))
    ]
    html = page_after(browser, _answering(_answer([FIRST], citations=[CITED, *other_citations])))
    listed = _words(re.findall(r'<aside id="citations".*?</aside>', html, re.DOTALL)[0])
    link = "Page iv (PDF page 3) Service PDF ↗"
    assert listed == f"Cited in this answer 1 Pump <7> {link} 3 {link} 2 The Kestrel pump of the second series {link}"


def test_a_question_in_place_of_another_ends_it_and_nothing_of_it_is_shown(browser: Browser) -> None:
    events = Released(STARTED, TextDelta(part=0, text="Turn"), TextDelta(part=0, text=" nothing"))
    with opened(browser, _streaming(events)):
        for _ in range(2):
            events.release()
        browser.until(f"{READ}.includes('Turn')")
        browser.run("document.querySelector('#question').value = 'other'")
        browser.run("document.querySelector('#ask').requestSubmit()")
        assert events.has_stopped.wait(timeout=10)
        browser.settled()
        assert _words(_parts(browser.html)) == "Service Turn the valve. 1 Figure 1 1"
        assert "could not be answered" not in browser.html


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ([TransientError("the index does not answer")], "The index does not answer"),
        ([ZeroDivisionError("a secret")], "Something went wrong here; the service's log says what"),
        ([], "The connection broke before the answer was complete."),
    ],
    ids=["error", "bug", "cut"],
)
def test_an_answer_that_breaks_off_is_replaced_by_the_reason(end: list[Exception], line: str, browser: Browser) -> None:
    events = Released(STARTED, TextDelta(part=0, text="Turn"), PartFinished(part=0, value=FIRST), *end)
    with opened(browser, _streaming(events)):
        for _ in range(2):
            events.release()
        browser.until(f"{READ}.includes('Turn')")
        for _ in range(2):
            events.release()
        browser.until("document.querySelector('#parts .wrong')")
        assert _words(_parts(browser.html)) == f"This question could not be answered {line} Try again"


EXTRACTED: list[Part] = [
    TextPart(text="Fitting <i>it</i>", citations=[1], style="heading"),
    TextPart(text="𝛼 Turn the valve. Then wait.", citations=[1], marked=[(2, 17)]),
    TextPart(text="1. Open <b>it</b>.", citations=[1], style="item"),
    TextPart(text="• Close it.", citations=[1], style="item", marked=[(2, 11)]),
    TextPart(text="if x:\n    <s>run</s>", citations=[1], style="code"),
    TextPart(text="Another paragraph.", citations=[1], folded=True),
    FIGURE.model_copy(update={"folded": True}),
]


def test_the_parts_of_a_passage_are_drawn_by_their_style_and_its_rest_is_folded(browser: Browser) -> None:
    html = page_after(browser, _answering(_answer(EXTRACTED)))
    parts = _parts(html)
    assert '<h3 dir="auto">Fitting &lt;i&gt;it&lt;/i&gt;</h3>' in parts
    assert '<p dir="auto">𝛼 <mark>Turn the valve.</mark> Then wait.</p>' in parts
    items = re.findall(r"<li.*?</li>", parts)
    assert [_words(item) for item in items] == ["1. Open <b>it</b>.", "• Close it."]
    assert "<mark>Close it.</mark>" in items[1]
    assert "<code>if x:\n    &lt;s&gt;run&lt;/s&gt;</code></pre>" in parts
    visible_html, folded = parts.split("<details")
    assert _words(folded).endswith("Show the rest of the passage Another paragraph. The valve 1")
    assert " open" not in folded.split(">")[0]
    assert visible_html.count('class="cite"') == 1, "behind what is shown of the passage"


def test_a_passage_that_is_folded_as_a_whole_is_named_by_its_place(browser: Browser) -> None:
    parts: list[Part] = [part.model_copy(update={"folded": True}) for part in (FIRST, SECOND)]
    html = page_after(browser, _answering(_answer(parts)), ["#parts summary"])
    assert re.search(r'<details class="more" open=""><summary>Service, page iv \(PDF page 3\)</summary>', html)


def test_rows_of_one_place_that_are_folded_as_a_whole_are_folded_once(browser: Browser) -> None:
    parts: list[Part] = [SECOND.model_copy(update={"folded": True, "citations": cited}) for cited in ([1], [2], [1])]
    citations = [CITED, CITED.model_copy(update={"n": 2, "evidence_id": "b"})]
    html = page_after(browser, _answering(_answer(parts, citations=citations)))
    assert _parts(html).count("<summary>") == 1


def test_what_is_folded_opens(browser: Browser) -> None:
    html = page_after(browser, _answering(_answer(EXTRACTED)), ["#parts summary"])
    assert re.search(r'<details class="more" open=""><summary>Show less</summary>', html)


TABLE = TablePart(
    rows=[["Key", "Does"], ["1", "stops"], ["2", "<b>runs</b>"], ["3", "waits"]],
    figures=[],
    citations=[1],
    key_rows=[2],
    key_column=1,
)


def test_a_table_shows_the_rows_that_answer_and_the_others_on_demand(browser: Browser) -> None:
    def rows(html: str) -> list[str]:
        return [_words(row) for row in re.findall(r'<tr(?: class="[^"]*")?>.*?</tr>', _parts(html))]

    html = page_after(browser, _answering(_answer([TABLE])))
    assert rows(html) == ["Key Does", "2 <b>runs</b>"]
    assert re.findall(r'<td class="key">(.*?)</td>', html) == ["&lt;b&gt;runs&lt;/b&gt;"]
    assert re.search(r'aria-expanded="false">Show all 3 rows<', html)
    html = page_after(browser, _answering(_answer([TABLE])), ["#parts .below button"])
    assert rows(html) == ["Key Does", "1 stops", "2 <b>runs</b>", "3 waits"]
    assert re.search(r'aria-expanded="true">Show only the rows that answer<', html)


def test_a_reader_is_told_who_wrote_an_answer_and_what_has_no_source(browser: Browser) -> None:
    rounds = [Round(query=query, evidence_ids=["e1"], new=1) for query in ("valve", "valve <torque>")]
    counts = AnswerCounts(uncited_sentences=1, unknown_tags=2)
    answer = _answer([FIRST, SECOND], model=MODEL, counts=counts, rounds=rounds)
    html = page_after(browser, _answering(STARTED, answer))
    parts = _parts(html)
    assert _words(parts) == "Turn <b>the</b> valve. 1 Then wait. ? (no source is cited for this)"
    assert parts.count("<p ") == 1, "sentences of one paragraph"
    assert 'title="No source is cited for this"' in parts
    text = _words(re.findall(r'<div id="provenance".*?</div>', html, re.DOTALL)[0])
    assert text.startswith(
        "Written by tiny-llm from the cited passages; check them. 1 sentence without a source, 2 unknown figures left out. "
        "Searched 2 times valve valve <torque> From the version of"
    )


def test_sentences_of_one_step_are_one_item(browser: Browser) -> None:
    steps = [FIRST.model_copy(update={"text": "1. Turn it.", "style": "item"}), SECOND.model_copy(update={"style": "item"})]
    html = page_after(browser, _answering(STARTED, _answer(steps, model=MODEL)))
    items = re.findall(r"<li.*?</li>", _parts(html))
    assert [_words(item) for item in items] == ["1. Turn it. 1 Then wait. ? (no source is cited for this)"]


def test_an_answer_without_a_model_says_why_or_that_it_is_not_sure(browser: Browser) -> None:
    result = _answer([FIRST, SECOND], unsure=True, note="the model does not answer")
    html = page_after(browser, _answering(result))
    text = "The model does not answer Not sure: the nearest passage says"
    assert _words(_parts(html)) == f"{text} Service Turn <b>the</b> valve. 1 Then wait."
    assert "Written by" not in html
    assert "Not sure: the nearest passage with 0 figures and 1 citation." in html


def test_a_written_answer_that_is_not_sure_is_not_called_a_passage(browser: Browser) -> None:
    added = FIGURE.model_copy(update={"added": True})
    html = page_after(browser, _answering(STARTED, _answer([FIRST, added], model=MODEL, unsure=True)))
    assert _words(_parts(html)).startswith("Not sure that the documents answer this. A model wrote")
    assert "the nearest passage" not in html
    assert "Chosen by Inset." in _parts(html)


def test_a_follow_up_question_is_sent_with_the_turns_before_it(browser: Browser) -> None:
    understood = FollowUp(question="And its seal? (valve)", source="pumps/pump.pdf")
    corpus = _answering(_answer([FIRST]))
    corpus.streams["And its seal?"] = lambda _: iter([_answer([FIRST], follow_up=understood)])
    with opened(browser, corpus, "q=valve"):
        browser.settled()
        browser.run("document.querySelector('#follow-question').value = 'And its seal?'")
        browser.click("#follow button")
        browser.until("document.querySelector('#parts').textContent.includes('Understood as')")
        text = browser.run("document.querySelector('#parts').textContent")
        browser.run("document.querySelector('#question').value = 'valve'")
        browser.click("#ask button[type=submit]")
        browser.settled()
    assert "Understood as: And its seal? (valve), in pump.pdf" in text
    turns = [[turn.question for turn in query.history] for query in corpus.answer_queries]
    assert turns == [[], ["valve"], []]
    assert corpus.answer_queries[1].history[0].evidence_ids == [CITED.evidence_id]


def test_a_citation_names_title_page_and_section_and_leads_to_the_pdf_there(browser: Browser) -> None:
    html = page_after(browser, _answering(_answer([FIRST])))
    listed = re.findall(r'<aside id="citations".*?</aside>', html, re.DOTALL)[0]
    assert _words(listed) == "Cited in this answer 1 Pump <7> Page iv (PDF page 3) Service PDF ↗"
    assert f'<a href="{ORIGINAL}#page=3"' in listed
    assert re.search(r'aria-label="Citation 1: Pump (<|&lt;)7(>|&gt;), page iv \(PDF page 3\)"', html)


def _choices(html: str) -> list[str]:
    offered = re.findall(r'<label id="answer-picker"([^>]*)>.*?<select[^>]*>(.*?)</select>', html, re.DOTALL)[0]
    return [] if "hidden" in offered[0] else re.findall(r'<option value="(.*?)"', offered[1])


def test_ways_to_answer_are_offered_where_a_version_has_what_they_need(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    offered = _choices(page_after(browser, corpus, [], "q=valve&answer=written"))
    assert {"", "written"} <= set(offered)
    assert not [name for name in offered if "gold" in name], "a given context is what filters name"
    assert [query.answer for query in corpus.answer_queries] == ["written"]
    corpus.lacking = ["models.llm, or answer.model"]
    assert _choices(page_after(browser, corpus)) == []


def test_names_for_screen_readers_have_what_is_shown_and_landmarks_are_unique(browser: Browser) -> None:
    corpus = _answering(_answer([TABLE, TABLE]))
    corpus.documents = 2
    html = page_after(browser, corpus)
    labelled = re.findall(r'<(button|a)\b[^>]* aria-label="([^"]*)"[^>]*>(.*?)</\1>', html, re.DOTALL)
    label_pairs = [(label, re.sub(r"<.*?>|[^\w ]", "", words).strip()) for _, label, words in labelled]
    assert "More of this document" in [words for _, words in label_pairs]
    assert [(label, words) for label, words in label_pairs if words.lower() not in label.lower()] == []
    assert html.count('class="table"') == 2
    assert 'role="region"' not in html


def test_nothing_is_wider_than_a_phone(browser: Browser) -> None:
    long = "x" * 90
    parts = [
        *EXTRACTED,
        TextPart(text=f"{long}({long})", citations=[1], style="code"),
        TextPart(text=f"1. {long}", citations=[1], style="item"),
        TextPart(text=long, citations=[1], style="heading", folded=True),
        TABLE.model_copy(update={"rows": [["Key", long, long], ["1", long, long], ["2", long, long]]}),
    ]
    corpus = FakeCorpus("pumps", table=True)
    corpus.rows = [["Key", long, long], ["7", long, long]]
    corpus.streams["valve"] = lambda _: iter(
        [_answer(parts, model=long, rounds=[Round(query=long, evidence_ids=[], new=0)] * 2)]
    )
    with opened(browser, corpus, width=360):
        browser.settled()
        browser.click("#parts summary")
        browser.run("document.querySelector('#answers').value = 'ilt'")
        assert browser.run("[innerWidth, document.documentElement.scrollWidth]") == [360, 360]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_key_is_asked_for_and_sent_with_every_request(is_known: bool, browser: Browser, tmp_path: Path) -> None:
    key = new_key()
    file = tmp_path / "keys.jsonl"
    file.write_text(key_line(Key(name="reader", sha256=digest(key), corpora=("pumps",))))
    corpus = FakeCorpus("pumps")
    corpus.pixels = draw(1)
    with opened(browser, corpus, access=Access(KeyFile(file))):
        browser.until("!document.querySelector('#key').hidden")
        browser.run(f"document.querySelector('#key-text').value = {json.dumps(key if is_known else 'wrong')}")
        browser.run("document.querySelector('#key').requestSubmit()")
        browser.settled()
        html = browser.html
    form = re.findall(r'<form id="key"[^>]*>', html)[0]
    assert ("hidden" in form, 'class="cite"' in html, 'src="blob:' in html) == (is_known, is_known, is_known)
    assert ("The key is not known here" in html) != is_known
    assert key not in html


COPIED = "navigator.clipboard.readText()"


def test_an_answer_is_copied_as_markdown_with_its_citations(browser: Browser) -> None:
    parts: list[Part] = [
        TextPart(text="Fitting *it*", citations=[], style="heading"),
        FIRST,
        SECOND,
        TextPart(text="• Close it.", citations=[1], style="item"),
        TextPart(text="a*b", citations=[1], style="code"),
        TABLE.model_copy(update={"rows": [["Key", "Does"], ["1", "a | <image:12345678.png>"]], "figures": [FIGURE]}),
        FIGURE,
    ]
    browser("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    with opened(browser, _answering(_answer(parts)), "q=valve&corpus=pumps") as address:
        browser.click(".taking button")
        browser.until("document.querySelector('#status-answer').textContent.includes('copied')")
        copied = browser.run(COPIED)
    image = f"![The valve]({address}/v1/corpora/pumps/figures/{FIGURE_ID}?version={LIVE})"
    assert copied.split("\n\n") == [
        *("# valve", "## Fitting \\*it\\*", "Turn \\<b\\>the\\</b\\> valve.[^1] Then wait.", "- Close it.[^1]"),
        *("```\na*b\n```", "[^1]", f"| Key | Does |\n| --- | --- |\n| 1 | a \\| {image} |", "[^1]", image, "[^1]"),
        f"[pumps, version {LIVE}]({address}/?q=valve&corpus=pumps&version={LIVE})",
        f"[^1]: [Pump \\<7\\>, page iv (PDF page 3), Service]({address}/{ORIGINAL}#page=3)",
    ]


def test_a_permanent_link_names_the_version_and_shows_the_same_again(browser: Browser) -> None:
    browser("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    corpus = FakeCorpus("pumps")
    corpus.search_presets = [BY_WORDS, *BY_PICTURES]
    with opened(browser, corpus, "q=valve&preset=unified&section=Service&answer=written"):
        browser.click(".taking button:last-child")
        browser.until("document.querySelector('#status-answer').textContent.includes('copied')")
        browser.open(browser.run(COPIED))
        browser.settled()
    first, again = corpus.answer_queries
    assert again == replace(first, version=LIVE)
    assert corpus.queries[-1] == replace(corpus.queries[0], version=LIVE)


def test_two_presets_are_compared_side_by_side(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    corpus.search_presets = [BY_WORDS, *BY_PICTURES]
    with opened(browser, corpus):
        browser.settled()
        browser.run("document.querySelector('#compare').value = 'preset:image'")
        browser.run("document.querySelector('#compare').dispatchEvent(new Event('change'))")
        browser.settled()
        assert browser.run("new URLSearchParams(location.search).get('compare')") == "preset:image"
        columns = "[...document.querySelectorAll('.columns > section:not([hidden])')]"
        names = f"{columns}.map((each) => each.querySelector('h3').textContent)"
        assert browser.run(names) == ["Pages", "Pictures"]
        ranks = f"{columns}.map((each) => each.querySelector('.hit .elsewhere').textContent)"
        assert browser.run(ranks) == ["rank 1 in the other"] * 2
        assert browser.run("document.querySelector('#status-evidence').textContent") == "1 hit by Pages, 1 hit by Pictures."
    assert sorted(str(query.preset) for query in corpus.queries) == ["None", "None", "image"]


def test_a_version_is_compared_with_another(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    corpus.pixels = draw(1)
    corpus.older = ["20260201T061502Z-1a2b3c4d"]
    with opened(browser, corpus, "q=valve&compare=version:20260201T061502Z-1a2b3c4d"):
        browser.settled()
        chosen = browser.run("document.querySelector('#compare').value")
        answers = browser.run("['#parts', '#other-parts'].map((each) => document.querySelector(each).textContent)")
    assert chosen == "version:20260201T061502Z-1a2b3c4d"
    assert [_words(answer) for answer in answers] == ["ServiceTurn the valve. 1Figure 1 1"] * 2
    assert {query.version for query in corpus.answer_queries} == {None, "20260201T061502Z-1a2b3c4d"}
    assert {query.version for query in corpus.queries} == {None, "20260201T061502Z-1a2b3c4d"}


@pytest.mark.parametrize(
    ("typed", "page"), [("IV", 3), ("4", 4), ("9", None), ("x", None)], ids=["printed", "of the PDF", "beyond", "unknown"]
)
def test_the_viewer_jumps_to_a_page_by_its_number(typed: str, page: int | None, browser: Browser) -> None:
    corpus = FakeCorpus("pumps", labels=["iv", None])
    with opened(browser, corpus):
        browser.click(".source")
        browser.until("document.querySelector('#page-number').textContent.endsWith('of 4')")
        browser.click("#next")
        browser.run(f"document.querySelector('#go-to-page').value = '{typed}'")
        browser.run("document.querySelector('#go-to').requestSubmit()")
        browser.settled()
        fragment = browser.run("document.querySelector('#viewer-pdf').hash")
        assert browser.run("document.querySelector('#go-to-page').validity.valid") == (page is not None)
    assert fragment == f"#page={page or 4}"


def test_the_page_says_what_is_going_on(browser: Browser) -> None:
    events = Released(STARTED, TextDelta(part=0, text="Turn"), _answer([FIRST], model=MODEL))
    status = "document.querySelector('[role=status]').textContent"
    with opened(browser, _streaming(events)):
        for words in (
            "Looking for an answer",
            "tiny-llm is writing the answer",
            "",
            "Answer with 0 figures and 1 citation.",
        ):
            browser.until(f"{status}.startsWith({json.dumps(words)})")
            events.release()
        browser.until(f"{status}.endsWith(' 1 hit by hybrid.')")


def test_the_reference_draws_every_operation_and_fetches_nothing_from_other_hosts(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    with opened(browser, corpus, path="/api") as address:
        browser.until("document.querySelector('[id=\"operation/search\"]')")
        browser.settled()
        drawn = browser.run("[...document.querySelectorAll('[data-section-id^=\"operation/\"]')].map(({ id }) => id)")
        spec = browser.run("fetch('openapi.json').then((response) => response.json())")
        entries = "performance.getEntriesByType('resource').filter((each) => each.responseStatus).map((each) => each.name)"
        loaded = browser.run(entries)
    assert sorted(drawn) == sorted(
        f"operation/{operation['operationId']}" for methods in spec["paths"].values() for operation in methods.values()
    )
    assert [entry for entry in loaded if not entry.startswith(address)] == []
    assert [entry for entry in browser.complaints if "logo-mini.svg" not in entry] == [], (
        "Redoc's logo is blocked by the policy"
    )
    browser.complaints.clear()


FOCUSED = "document.activeElement.id || document.activeElement.className"


def test_a_reader_needs_no_mouse(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    with opened(browser, corpus, ""):
        browser.settled()
        browser.run("document.activeElement.blur()")
        browser.press("/", text="/")
        assert browser.run(FOCUSED) == "question"
        for letter in "valve":
            browser.press(letter, text=letter)
        browser.press("Enter")
        browser.until("document.querySelector('.cite')")
        browser.settled()
        browser.run("document.querySelector('#parts .cite').focus()")
        browser.press("Enter")
        browser.until("document.querySelector('#viewer').open")
        assert browser.run(FOCUSED) == "stage"
        for key, page in (("ArrowRight", 4), ("ArrowLeft", 3)):
            browser.press(key)
            assert browser.run("document.querySelector('#viewer-pdf').hash") == f"#page={page}"
        browser.press("Escape")
        browser.until("!document.querySelector('#viewer').open")
        assert browser.run(FOCUSED) == "cite", "back where the reader was"
    assert [query.question for query in corpus.answer_queries] == ["valve"]


CONTROLS = """
[...document.querySelectorAll("a, button, input, select, summary, [tabindex='0']")]
  .filter((each) => each.checkVisibility() && !each.disabled && !(each.type === "radio" && !each.checked))
  .map((each, place) => { each.dataset.place = place; return each; }).length
"""


def test_tab_reaches_every_control_in_the_order_of_the_page(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    corpus.pixels = draw(1)
    corpus.search_presets = [BY_WORDS, *BY_PICTURES]
    with opened(browser, corpus):
        browser.settled()
        browser.run("document.activeElement.blur()")
        for position in range(browser.run(CONTROLS)):
            browser.press("Tab")
            assert browser.run("document.activeElement.dataset.place") == str(position)


def test_a_reader_signs_in_and_out(browser: Browser) -> None:
    corpus = FakeCorpus("pumps")
    with identity_provider.running() as provider:
        options = ProviderOptions(issuer=provider.issuer, client=identity_provider.CLIENT)
        with opened(browser, corpus, access=Access(provider=IdentityProvider(options))):
            browser.until("!document.querySelector('#sign-in').hidden")
            assert browser.run("[document.querySelector('#key').hidden, document.querySelector('#ask').hidden]") == [
                True,
                True,
            ]
            browser.click("#sign-in-link")
            browser.until("document.querySelector('#user-name')?.textContent === 'Anna'")
            browser.settled()
            assert 'class="cite"' in browser.html
            browser.click("#sign-out")
            browser.until("!document.querySelector('#sign-in').hidden")
            assert not browser.run("document.querySelector('#user-name').textContent")
