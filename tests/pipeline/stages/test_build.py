"""What is read back of a built collection, and the gates that judge it."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from backends.engines.lancedb_index import LanceIndex
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.collection import ENGINE_GATES, bring_forward, open_vectors, read_back
from pipeline.records.collection import fill as fill_collection
from pipeline.records.differences import Difference
from pipeline.records.evidence import evidence_parts
from pipeline.records.manifests import changed
from pipeline.records.notes import read_notes
from pipeline.run import refresh
from schemas.errors import TransientError
from schemas.evidence import EVIDENCE
from schemas.filters import Filters
from schemas.gates import GateResult
from schemas.ids import version_file
from schemas.ports import SearchIndex
from schemas.stages import Stage
from tasks.enriching.spaces import TEXT
from tests.contract.test_search_index import ROWS, SUBJECTS, VECTORS, assert_alike, fill
from tests.manuals import write_manual
from tests.memory_index import MemoryIndex
from tests.pipeline.conftest import write_corpus

Row = dict[str, object]


def _gates(evidence: list[Row], indexed_rows: list[Row]) -> list[GateResult]:
    index = MemoryIndex()
    fill(index, indexed_rows, VECTORS[: len(indexed_rows)])
    rows = pa.Table.from_pylist(evidence, schema=EVIDENCE)
    gates = read_back(index, [rows.slice(0, 2), rows.slice(2)], rows.num_rows, [TEXT])
    assert tuple(gate.gate for gate in gates) == ENGINE_GATES
    return gates


def test_what_was_written_comes_back() -> None:
    assert all(gate.passed for gate in [*_gates(ROWS, ROWS), *_gates([], [])])


@pytest.mark.parametrize(
    ("lose", "counted"),
    [
        (lambda rows: rows[1:], False),
        (lambda rows: [{**rows[0], "text": "another"}, *rows[1:]], True),
        (lambda rows: [{**rows[0], "bbox": [1.0, 2.0, 3.0, 4.0]}, *rows[1:]], True),
    ],
)
def test_what_does_not_come_back_is_told(lose: Callable[[list[Row]], list[Row]], counted: bool) -> None:
    count, sample = _gates(ROWS, lose(ROWS))
    assert (count.passed, sample.passed) == (counted, False)
    assert f"but not those of {ROWS[0]['sources'][0]} page {ROWS[0]['page']}; the next refresh" in sample.message  # type: ignore[index]


def test_what_an_engine_lost_is_built_again(corpus_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = open_workspace(str(corpus_file))
    real = LanceIndex.add

    def add(index: LanceIndex, batches: Iterable[pa.RecordBatch]) -> None:
        real(index, (batch.slice(1) for batch in batches))

    monkeypatch.setattr(LanceIndex, "add", add)
    refused = refresh(workspace)
    assert [gate.gate for gate in refused.gates if not gate.passed] == list(ENGINE_GATES)
    monkeypatch.undo()
    result = refresh(workspace)
    assert result.published
    assert result.version != refused.version


class _Faulty(MemoryIndex):
    """An engine that forgets what it is told when a collection is brought forward."""

    def __init__(self, fault: str | None = None) -> None:
        super().__init__()
        self.fault = fault

    def drop(self) -> None:
        fault = self.fault
        super().drop()
        self.fault = fault

    def derive(self, earlier: SearchIndex, schema: pa.Schema, fields: Sequence[str], without: Sequence[str]) -> bool:
        return super().derive(earlier, schema, fields, [] if self.fault == "keeps gone documents" else without)

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        if self.fault == "loses a row":
            batches = [batch.slice(1) for batch in batches]
        if self.fault == "writes another text":
            column = EVIDENCE.get_field_index("text")
            batches = [batch.set_column(column, "text", pa.array(["another"] * batch.num_rows)) for batch in batches]
        return super().add(batches)


@pytest.mark.parametrize("fault", [None, "keeps gone documents", "loses a row", "writes another text"])
def test_a_collection_that_was_brought_forward_wrongly_is_found_out(
    published: Workspace, fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (version,) = published.store.folders("versions")
    spaces = open_vectors(published.store, published.spaces)
    rows = [*evidence_parts(published.store, version)]
    first, second = dict.fromkeys(str(doc_id) for part in rows for doc_id in part.column("doc_id").to_pylist())
    index = _Faulty()
    fill_collection(index, lambda: rows, spaces)
    changed = [pa.concat_tables(rows).filter(pc.equal(pa.concat_tables(rows).column("doc_id"), pa.scalar(first)))]
    monkeypatch.setattr(Difference, "changed_rows", lambda _: iter(changed))
    difference = Difference(published.store, version, version, removed=[first, second], changed=[first])
    index.fault = fault
    row_count = bring_forward(index, difference, spaces, changed[0].num_rows)
    assert row_count == (changed[0].num_rows if fault is None else None)


@pytest.fixture(scope="module")
def nine_refreshed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nine")
    for number in range(9):
        write_manual(folder / "pdfs" / f"{number}.pdf", f"{SUBJECTS[number]} device", seed=number)
    assert refresh(open_workspace(str(write_corpus(folder)))).published
    return folder


@pytest.fixture
def nine_manuals(nine_refreshed: Path, tmp_path: Path) -> Workspace:
    """A corpus in which one document is a ninth, so that the next version's collection is derived; a copy to work on."""
    shutil.copytree(nine_refreshed, tmp_path, dirs_exist_ok=True)
    return open_workspace(str(tmp_path / "corpora" / "manuals.yaml"))


def _change(workspace: Workspace) -> str:
    """Change a document and refresh; return the version that is live then."""
    write_manual(workspace.file.parent.parent / "pdfs" / "3.pdf", "hydraulic lift", seed=30)
    return _refreshed(workspace)


def _refreshed(workspace: Workspace) -> str:
    result = refresh(workspace)
    assert result.published
    assert result.version is not None
    return result.version


def _turn_a_bit(file: Path) -> None:
    turned = bytearray(file.read_bytes())
    turned[len(turned) // 2] ^= 1
    file.write_bytes(turned)


def _written(workspace: Workspace, version: str) -> tuple[int, int]:
    counts = read_notes(workspace.store, version, [Stage.BUILD])[Stage.BUILD].counts
    return counts["rows_written"], counts["rows_built"]


def _assert_as_filled(workspace: Workspace, version: str, folder: Path) -> None:
    """Compare a version's collection with a fresh one of the same rows."""
    evidence = [*evidence_parts(workspace.store, version)]
    index, rebuilt_index = workspace.index(version), LanceIndex(str(folder), "Fresh_v_1", languages=["en"])
    rows = fill_collection(rebuilt_index, lambda: evidence, open_vectors(workspace.store, workspace.spaces))
    names = [str(name) for part in evidence for name in part.column("evidence_id").to_pylist()]
    assert index.count() == rows
    assert index.fetch(names) == rebuilt_index.fetch(names)
    assert {name: vector.tolist() for name, vector in index.vectors(names, "text").items()} == {
        name: vector.tolist() for name, vector in rebuilt_index.vectors(names, "text").items()
    }
    for words in (*SUBJECTS, "device", "lift"):
        assert_alike(index.bm25(words, 50, Filters()), rebuilt_index.bm25(words, 50, Filters()))


def test_of_a_small_change_only_its_rows_are_written(nine_manuals: Workspace, tmp_path: Path) -> None:
    version = _change(nine_manuals)
    rows_written, built = _written(nine_manuals, version)
    assert 0 < rows_written < built / 4
    _assert_as_filled(nine_manuals, version, tmp_path / "fresh")


@pytest.mark.slow
def test_a_document_that_went_or_moved_is_in_the_derived_collection_as_it_is_now(
    nine_manuals: Workspace, tmp_path: Path
) -> None:
    pdfs = nine_manuals.file.parent.parent / "pdfs"
    (pdfs / "4.pdf").rename(pdfs / "moved.pdf")
    moved = _refreshed(nine_manuals)
    assert 0 < _written(nine_manuals, moved)[0] < _written(nine_manuals, moved)[1] / 4
    _assert_as_filled(nine_manuals, moved, tmp_path / "moved")
    (pdfs / "5.pdf").unlink()
    version_after_removal = _refreshed(nine_manuals)
    assert (
        _written(nine_manuals, version_after_removal)[0] == _written(nine_manuals, version_after_removal)[1]
    )  # a third of the documents by now: filled again
    _assert_as_filled(nine_manuals, version_after_removal, tmp_path / "gone")
    (pdfs / "6.pdf").unlink()
    last = _refreshed(nine_manuals)
    assert _written(nine_manuals, last)[0] == 0
    _assert_as_filled(nine_manuals, last, tmp_path / "last")


def test_a_derived_collection_outlives_the_one_that_it_was_derived_from(nine_manuals: Workspace, tmp_path: Path) -> None:
    parent = [*nine_manuals.store.folders("versions")][-1]
    version = _change(nine_manuals)
    nine_manuals.index(parent).drop()
    _assert_as_filled(nine_manuals, version, tmp_path / "fresh")


def test_nothing_is_derived_from_a_damaged_collection(nine_manuals: Workspace, tmp_path: Path) -> None:
    parent = [*nine_manuals.store.folders("versions")][-1]
    folder = Path(nine_manuals.store.root, version_file(parent, "lance"))
    data = max((file for file in folder.rglob("data/*.lance")), key=lambda file: file.stat().st_size)
    _turn_a_bit(data)
    version = _change(nine_manuals)
    assert _written(nine_manuals, version)[0] == _written(nine_manuals, version)[1]
    _assert_as_filled(nine_manuals, version, tmp_path / "fresh")


@pytest.mark.parametrize("kind", ["data", "_indices"])
def test_damage_that_is_there_when_a_collection_is_derived_is_not_published(
    nine_manuals: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Rows are shared with the parent, and found out when the version is published; indexes are read and written again."""
    parent = [*nine_manuals.store.folders("versions")][-1]
    folder, derivations = Path(nine_manuals.store.root, version_file(parent, "lance")), list[Path]()
    real = LanceIndex.derive

    def derive(index: LanceIndex, earlier: SearchIndex, schema: pa.Schema, fields: list[str], without: list[str]) -> bool:
        damaged = max(folder.rglob(f"{kind}/**/*.lance"), key=lambda file: file.stat().st_size)
        _turn_a_bit(damaged)
        derivations.append(damaged)
        return real(index, earlier, schema, fields, without)

    monkeypatch.setattr(LanceIndex, "derive", derive)
    version = _change(nine_manuals)
    assert len(derivations) == 1
    assert _written(nine_manuals, version)[0] == _written(nine_manuals, version)[1]
    assert not [*changed(nine_manuals.store, version)]
    _assert_as_filled(nine_manuals, version, tmp_path / "fresh")


def test_a_build_that_died_while_deriving_is_done_again(
    nine_manuals: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(index: LanceIndex) -> None:
        raise TransientError("the disk is full")

    parent = [*nine_manuals.store.folders("versions")][-1]
    monkeypatch.setattr(LanceIndex, "finish", die)
    with pytest.raises(TransientError):
        _change(nine_manuals)
    monkeypatch.undo()
    assert nine_manuals.index(parent).bm25("device", 1, Filters())
    version = _change(nine_manuals)
    assert 0 < _written(nine_manuals, version)[0] < _written(nine_manuals, version)[1] / 4
    _assert_as_filled(nine_manuals, version, tmp_path / "fresh")
