"""Text from outside, made fit for people."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.markdown import Markdown

from schemas import printing
from schemas.errors import BadInputError, FailureCode, UserError

ANY = st.text(st.characters(exclude_categories=()), max_size=30)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("pump.pdf", "pump.pdf"),
        ("取説 Überblick שלום.pdf", "取説 Überblick שלום.pdf"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31mred\x9b0m\x7f", r"\x1b[31mred\x9b0m\x7f"),
        ("gpj\u202efdp.exe", r"gpj\u202efdp.exe"),
        ("\udce9\u2028\U000e0041", r"\udce9\u2028\U000e0041"),
    ],
)
def test_a_line_shows_what_it_holds(text: str, printed: str) -> None:
    assert printing.line(text) == printed
    assert printing.is_plain(text) == (text == printed)
    assert UserError(text).message == printed
    assert BadInputError(text, FailureCode.CRASHED).message == printed


@given(ANY)
def test_a_line_is_a_line_and_stays_what_it_is(text: str) -> None:
    line = printing.line(text)
    assert len(line.splitlines()) <= 1
    assert printing.line(line) == line
    line.encode()
    assert printing.lines(text).count("\n") == text.count("\n")


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=30) | st.integers()))
def test_json_means_what_it_meant_and_holds_nothing_to_obey(value: dict[str, object]) -> None:
    text = printing.json_text(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value
    assert printing.lines(text) == text
    text.encode()


@pytest.mark.parametrize("name", ["a_b_c.pdf", "*x* [y](http://z) `t` <b> \\ ~~s~~ | _u_", "a\n## b"])
def test_markdown_shows_a_name_as_it_is(name: str) -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(Markdown(f"- {printing.markdown_line(name)}"))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().strip().removeprefix("•").strip() == printing.line(name)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("can't reach http://joe:hunter2@host:80/a", "can't reach http://…@host:80/a"),
        ("'s3://key:sec@ret@bucket/x'", "'s3://…@bucket/x'"),
        ("http://host/a?X-Amz-Signature=hunter2 is gone", "http://host/a?… is gone"),
        ("s3://bucket/a@b.pdf", "s3://bucket/a@b.pdf"),
        ("why? because", "why? because"),
    ],
)
def test_addresses_are_shown_without_secrets(text: str, printed: str) -> None:
    assert printing.without_secrets(text) == printed
