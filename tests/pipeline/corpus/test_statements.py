"""What tables, files beside documents, paths and entry points say of documents."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.corpus.statements import Statements, last_fitting, parse_value
from pipeline.corpus.workspace import open_workspace
from schemas.errors import TransientError, UserError
from schemas.filters import FieldType

SOURCES = ["phones/PX-4/7/manual.pdf", "phones/PX-4/8/manual.pdf", "tablets/T1/1/a [draft].pdf"]
FIELDS = """
fields:
  product: {type: keyword}
  revision: {type: number}
  plants: {type: keywords}
  valid_from: {type: date}
  internal: {type: boolean}
"""


def statements(folder: Path, extra: str) -> Statements:
    (folder / "pdfs").mkdir(exist_ok=True)
    file = folder / "manuals.yaml"
    file.write_text(f"name: manuals\nsource: pdfs\n{extra}")
    return Statements(open_workspace(str(file)))


def readers(folder: Path, extra: str) -> dict[str, list[str] | None]:
    access = statements(folder, extra).access(SOURCES)
    return {
        source: None if source_access.principals is None else sorted(source_access.principals)
        for source, source_access in access.items()
    }


def test_of_a_table_the_last_row_that_fits_counts(tmp_path: Path) -> None:
    (tmp_path / "access.csv").write_text(
        "source,principals\n*,everyone\nphones/*,group:service; user:1\n*/8/*,\ntablets/T1/1/a [draft].pdf,group:t\n"
    )
    assert readers(tmp_path, "access: {table: access.csv}") == {
        SOURCES[0]: ["group:service", "user:1"],
        SOURCES[1]: [],
        SOURCES[2]: ["group:t"],
    }
    access = statements(tmp_path, "access: {table: access.csv}").access(SOURCES)
    assert access[SOURCES[0]].where == f"{tmp_path}/access.csv: line 3"


def test_a_source_without_a_row_is_nobodys_and_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"source": ["phones/*"], "principals": [["group:a", "everyone"]]}), tmp_path / "access.parquet")
    assert readers(tmp_path, "access: {table: access.parquet}")[SOURCES[2]] == []
    (tmp_path / "access.csv").write_text("source,principals\n")
    with pytest.raises(UserError, match="no rows, so rights stay as they are"):
        readers(tmp_path, "access: {table: access.csv}")


@pytest.mark.parametrize(
    ("table", "mistake"),
    [
        ("source,principals\n*,service\n", "access.csv: line 2: 'service' names nobody"),
        ("source,principals,colour\n*,everyone,red\n", "line 1: unknown column 'colour'"),
        ("source\n*\n", "line 1: there is no column principals"),
        ("principals\neveryone\n", "line 1: there is no column source"),
        ("source,principals\na,b,c\n", "line 2: 3 columns instead of 2"),
        ('source,principals\n"a,b\n', "this is not CSV"),
    ],
)
def test_a_mistake_in_a_table_is_refused_with_its_line(tmp_path: Path, table: str, mistake: str) -> None:
    (tmp_path / "access.csv").write_text(table)
    with pytest.raises(UserError, match=mistake):
        readers(tmp_path, "access: {table: access.csv}")


def test_a_file_beside_a_document_says_who_may_read_it_and_its_fields(tmp_path: Path) -> None:
    beside = tmp_path / "pdfs" / f"{SOURCES[0]}.meta.yaml"
    beside.parent.mkdir(parents=True)
    beside.write_text(
        "access: [group:members, everyone]\nproduct: PX-4\nrevision: 7\nvalid_from: 2024-03-31\ninternal: no\n"
    )
    extra = FIELDS + "access: {beside: true, site: lyon}\nmetadata: {beside: true}\n"
    assert readers(tmp_path, extra) == {SOURCES[0]: ["everyone", "group:lyon/members"], SOURCES[1]: None, SOURCES[2]: None}
    assert statements(tmp_path, extra).values(SOURCES)[SOURCES[0]] == {
        "product": "PX-4",
        "revision": 7.0,
        "valid_from": "2024-03-31",
        "internal": False,
    }
    beside.write_text("product: 1.10\nrevision: seven\ncolour: red\n")
    with pytest.raises(UserError) as raised:
        statements(tmp_path, extra).values(SOURCES)
    assert raised.value.message.splitlines() == [
        f"{SOURCES[0]}.meta.yaml: line 1: product: 1.1 is no keyword; write text, in quotes",
        f"{SOURCES[0]}.meta.yaml: line 2: revision: 'seven' is no number; write one such as 7 or 2.5",
        f"{SOURCES[0]}.meta.yaml: line 3: unknown key 'colour'; known here: access, product, revision, plants, valid_from, "
        "internal",
    ]


def test_values_come_from_the_path_then_the_table(tmp_path: Path) -> None:
    (tmp_path / "fields.csv").write_text(
        "source,product,plants\n*,,Lyon; Kiel\nphones/*,Phone,\n*/8/*,PX-4 Plus,\n", encoding="utf-8-sig"
    )
    extra = FIELDS + "metadata: {path: '*/{product}/{revision}/*', table: fields.csv}\n"
    assert statements(tmp_path, extra).values(SOURCES) == {
        SOURCES[0]: {"product": "Phone", "revision": 7.0, "plants": ["Lyon", "Kiel"]},
        SOURCES[1]: {"product": "PX-4 Plus", "revision": 8.0, "plants": ["Lyon", "Kiel"]},
        SOURCES[2]: {"product": "T1", "revision": 1.0, "plants": ["Lyon", "Kiel"]},
    }


@pytest.mark.parametrize(
    ("kind", "raw"),
    [("number", True), ("number", "nan"), ("date", "31.3.2024"), ("date", 7), ("boolean", "maybe"), ("keywords", 3)],
)
def test_a_value_of_another_type_is_refused(kind: FieldType, raw: object) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_value(kind, raw)


@pytest.mark.parametrize(
    ("extra", "mistake"),
    [
        ("access: {beside: true, table: a.csv}", "name one of table, beside and entry_point"),
        ("metadata: {path: '{product}/*'}", "there is no field product"),
        (FIELDS + "metadata: {path: '{product}/{product}'}", "write each field once"),
        ("fields: {title: {}}", "title is the name of something else"),
        (FIELDS + "supersedes: {by: [product], newest: product}", "no number or date"),
        (FIELDS + "supersedes: {by: [colour], newest: revision}", "there is no field colour"),
    ],
)
def test_a_corpus_file_that_contradicts_itself_is_refused(tmp_path: Path, extra: str, mistake: str) -> None:
    with pytest.raises(UserError, match=mistake):
        statements(tmp_path, extra)


def test_an_entry_point_says_it_and_its_failure_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("rules", f"{__name__}:by_folder", "inset.access")
    monkeypatch.setattr("pipeline.corpus.statements.extensions", lambda group: [entry])
    assert readers(tmp_path, "access: {entry_point: rules, site: x}") == {
        SOURCES[0]: ["group:x/phones"],
        SOURCES[1]: None,
        SOURCES[2]: [],
    }
    with pytest.raises(TransientError, match=r"KeyError: 'no'.*rights stay as they are"):
        statements(tmp_path, "access: {entry_point: rules}").access(["no"])
    with pytest.raises(UserError, match=r"no entry point 'other' of inset\.access; installed: rules"):
        readers(tmp_path, "access: {entry_point: other}")


def by_folder(sources: list[str]) -> dict[str, list[str] | None]:
    answers: dict[str, list[str] | None] = {SOURCES[0]: ["group:phones"], SOURCES[1]: None, SOURCES[2]: []}
    return {source: answers[source] for source in sources}


def test_the_last_row_is_found_among_many() -> None:
    rows = [(f"folder{number}/*", number) for number in range(300)] + [("folder7/exact.pdf", -1)]
    find = last_fitting(rows)
    assert [find(f"folder{number}/a.pdf") for number in (0, 150, 299)] == [0, 150, 299]
    assert find("folder7/exact.pdf") == -1
    assert find("elsewhere.pdf") is None
