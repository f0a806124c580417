"""The terms of texts and of questions; what engines make of them is in the contract suite."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.analyser import LONGEST_TERM, STEMMED, query_terms, spans, terms


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Pumps", "en", "pumps pump"),
        ("Pumps", None, "pumps"),
        ("WCP-3200-B", "en", "wcp-3200-b wcp 3200 b wcp3200b"),
        ("WCP‑3200–B", "en", "wcp-3200-b wcp 3200 b wcp3200b"),
        ("2026-11-27", "en", "2026-11-27 2026 11 27"),
        ("open-source", "en", "open source sourc"),
        ("M3×12", "en", "m3x12 m3 12"),
        ("m3x12", "en", "m3x12 m3 12"),
        ("M3 x 12", "en", "m3x12 m3 12"),
        ("4.7.2.", "en", "4.7.2 4 7 2"),
        ("1,000, 2", "en", "1,000 1 000 2"),
        ("(/etc/fstab)", "en", "etc/fstab etc fstab"),
        ("max_files", "en", "max_files max files file"),
        ("C++, C#", "en", "c++ c c# c"),
        ("don’t", "en", "don t"),
        ("Über", "de", "uber"),
        ("Straße", "de", "strasse strass"),
        ("Druckerwarteschlangen", "de", "druckerwarteschlangen druckerwarteschlang druck warteschlang wart schlang"),
        ("Netzwerkschnittstelle", "en", "netzwerkschnittstelle netzwerkschnittstell"),
        ("l’élément", "fr", "l element"),
        ("жёсткий мой", "ru", "жесткий жестк мой мо"),
        ("الأقراص", "ar", "الاقراص اقراص"),
        ("水泵 pumps", "zh", "水 泵 水泵 pumps pump"),
        ("ｶﾒﾗ", "ja", "カ メ ラ カメ メラ"),
        ("が", "ja", "が"),
        ("soft\u00adware", "en", "software softwar"),
        ("x" * (LONGEST_TERM + 1), None, ""),
        ("a" * LONGEST_TERM, None, "a" * LONGEST_TERM),
    ],
)
def test_terms_of_texts(text: str, language: str | None, expected: str) -> None:
    assert terms(text, language) == expected


def test_a_question_is_asked_in_every_language_of_the_version_and_no_term_twice() -> None:
    assert query_terms("Pumps pumps, Ventile", []) == ["pumps", "ventile"]
    assert query_terms("Pumps pumps, Ventile", ["en"]) == ["pumps", "pump", "ventile", "ventil"]
    assert query_terms("installations", ["en", "fr", "ja", "tlh"]) == ["installations", "instal", "install"]
    assert query_terms("pumps", ["zh"]) == ["pumps", "pump"]
    assert query_terms("冷却水 水", ["zh"]) == ["冷却", "却水", "水"]
    assert query_terms("ou", ["sr"]) == ["ou"], "a Latin word in a Serbian text has no Serbian stem"


@given(st.text(), st.sampled_from([None, *sorted(STEMMED), "zh", "ja", "th"]))
def test_a_text_is_found_by_itself(text: str, language: str | None) -> None:
    """Whatever a text holds, a question in the same words has terms of it, and no term has a space."""
    text_terms = {*terms(text, language).split(" ")}
    question_terms = query_terms(text, [] if language is None else [language])
    assert {*question_terms} <= text_terms | {""}
    assert all(term == "".join(term.split()) and term for term in question_terms)


@pytest.mark.parametrize(
    ("query", "code"),
    [("E104", "E-104"), ("SK4471B", "SK-4471-B"), ("F0091", "F-0091"), ("V-12", "V12"), ("v12", "V‑12")],
)
def test_a_part_code_is_found_with_and_without_hyphens(query: str, code: str) -> None:
    text = f"Replace the seal {code} first."
    assert set(query_terms(f"What is {query}?", ["en"])) & set(terms(code, "en").split())
    assert [text[start:stop] for start, stop in spans(text, "en", query_terms(query, ["en"]))] == [code]


@given(st.text(), st.text(), st.sampled_from([None, "en", "de", "zh"]))
def test_places_are_in_order_and_apart(text: str, question: str, language: str | None) -> None:
    matches = spans(text, language, query_terms(question, ["en", "de", "zh"]))
    offsets = [offset for span in matches for offset in span]
    assert offsets == sorted(offsets)
    assert all(0 <= start < stop <= len(text) for start, stop in matches)


@pytest.mark.parametrize(
    ("text", "language", "question", "expected"),
    [
        ("The pump’s filters; a filter-bag.", "en", "filter", ["filters", "filter-bag"]),
        ("Das Sicherheitsventil, die Ventile", "de", "Ventil", ["Sicherheitsventil", "Ventile"]),
        ("请更换冷却水泵。水", "zh", "冷却水", ["冷却水"]),
        ("请更换冷却水泵。", "zh", "水", ["水"]),
        ("see /etc/fstab now", "en", "fstab", ["etc/fstab"]),
        ("nothing", "en", "pump", []),
    ],
)
def test_places_of_words(text: str, language: str, question: str, expected: list[str]) -> None:
    matches = spans(text, language, query_terms(question, [language]))
    assert [text[start:stop] for start, stop in matches] == expected


def test_the_terms_of_long_runs_are_not_kept() -> None:
    terms("水", "zh")
    tracemalloc.start()
    try:
        for first in range(0x4E00, 0x4E00 + 500):
            terms("".join(map(chr, range(first, first + 400))), "zh")
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 500_000, "a paragraph without spaces has 4 KB of terms"
