import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from backends.expectations import judge
from schemas.gates import RuleCount


def page_of(docs: Path) -> str:
    (page,) = (docs / "validations" / "evidence").rglob("*.html")
    return page.read_text(encoding="utf-8")


def test_a_rule_is_refused_if_more_rows_break_it_than_may(tmp_path: Path) -> None:
    shares = [(100, 29, 0.29), (10, 3, 0.3), (4, 1, 0.24), (4, 1, 0.25), (4, 4, 1.0), (7, 1, 0.0), (7, 0, 0.0), (0, 0, 0.0)]
    counts = [RuleCount(f"rule {number}", *numbers, ()) for number, numbers in enumerate(shares)]
    assert judge(counts, tmp_path) == {"rule 2", "rule 5"}


def test_data_docs_are_a_static_site_that_names_rules_counts_and_examples(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    docs, temporary = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    evidence = [
        RuleCount("page counts from 1", 7, 2, 0.0, ["pump.pdf page 3", "valve.pdf page 0"]),
        RuleCount("a row has a source", 7, 0, 0.0, []),
    ]
    logging.disable()  # a log isn't output
    try:
        refused = judge(evidence, docs)
    finally:
        logging.disable(logging.NOTSET)
    assert refused == {"page counts from 1"}
    assert list(temporary.iterdir()) == []
    assert (docs / "index.html").is_file()
    page = page_of(docs)
    for words in (
        "page counts from 1",
        "a row has a source",
        "2 unexpected values found",
        "of 7 total rows",
        "valve.pdf page 0",
    ):
        assert words in page
    assert sum(path.stat().st_size for path in docs.rglob("*") if path.is_file()) < 2_000_000
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_importing_the_module_is_cheap() -> None:
    script = "import sys, backends.expectations; sys.exit(bool({'great_expectations', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
