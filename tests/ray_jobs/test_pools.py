"""Actors that die: what it costs, and what it says about a row."""

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from backends.models.pictures import rejecting_engine_errors
from ray_jobs.cluster import connected
from ray_jobs.enrich import recognise
from ray_jobs.pools import FEW_DOCUMENTS, Outcome, _Attempt, _may_share, ordered_pool, run_pool
from schemas.base import batched
from schemas.corpus.operations import RayOptions
from schemas.documents import RecognisedLine
from schemas.errors import BadInputError, FailureCode, TransientError, UserError
from schemas.ids import figure_file

Rows = Sequence[tuple[str, Any]]


class Unmade:
    """An actor whose constructor fails, as one does whose model isn't there."""

    def __init__(self, error: Exception) -> None:
        raise error

    def run(self, batch: Rows) -> list[Outcome[str]]:
        """Never comes so far."""
        return [Outcome(row_id, "never") for row_id, _ in batch]


class Mortal:
    """An actor that some rows kill, and that says in a folder which process it is."""

    def __init__(self, folder: Path) -> None:
        (folder / str(os.getpid())).touch()

    def run(self, batch: Rows) -> list[Outcome[str]]:
        """Return each row's input, or die."""
        if any(row == "deadly" for _, row in batch):
            os._exit(1)
        return [Outcome(row_id, row) for row_id, row in batch]


class Small:
    """An actor with the memory of a GPU that holds so many rows of so much."""

    def __init__(self, most: int) -> None:
        self._most = most

    def run(self, batch: Rows) -> list[Outcome[int]]:
        """Return the size of its batch for each row."""
        if sum(size for _, size in batch) > self._most:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return [Outcome(row_id, len(batch)) for row_id, _ in batch]


class OutOfMemoryError(RuntimeError):
    """Torch's, by its name."""


class Broken:
    """An actor with a bug."""

    def run(self, batch: Rows) -> list[Outcome[str]]:
        """Fail as nobody foresaw."""
        raise {"store": TransientError("the store doesn't answer"), "bug": KeyError("bug")}[batch[0][1]]


@pytest.fixture(scope="module")
def cpus() -> Iterator[int]:
    """A Ray with two CPUs, for all tests here."""
    with connected(RayOptions(num_cpus=2)) as cpu_count:
        yield cpu_count


def found(batches: Iterable[list[Outcome[Any]]]) -> dict[str, Any]:
    """Return the value or the failure of each row."""
    return {
        outcome.row_id: outcome.failure.code if outcome.failure else outcome.value
        for outcomes in batches
        for outcome in outcomes
    }


@pytest.mark.slow
def test_an_actor_that_can_not_be_made_says_nothing_about_the_rows(cpus: int) -> None:
    missing = FileNotFoundError("there is no model here")
    with pytest.raises(TransientError, match=r"can't be started: FileNotFoundError: there is no model here$"):
        list(run_pool(Unmade, (missing,), batched([("a", 1), ("b", 2)], 1), workers=cpus))
    with pytest.raises(UserError, match=r"^name a model$"):
        list(run_pool(Unmade, (UserError("name a model"),), batched([("a", 1)], 1), workers=1))


@pytest.mark.slow
def test_what_an_actor_raises_is_raised_here(cpus: int) -> None:
    with pytest.raises(TransientError, match=r"^the store doesn't answer$"):
        list(run_pool(Broken, (), batched([("a", "store")], 1), workers=cpus))
    with pytest.raises(KeyError, match="bug"):
        list(run_pool(Broken, (), batched([("a", "bug")], 1), workers=cpus))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_row_that_kills_its_actor_fails_alone_and_is_no_result(cpus: int, tmp_path: Path, size: int) -> None:
    rows = [(f"{number}", "deadly" if number == 5 else "fine") for number in range(12)]
    results = found(run_pool(Mortal, (tmp_path,), batched(rows, size), workers=cpus))
    assert results == {name: FailureCode.MODEL_CRASHED if row == "deadly" else row for name, row in rows}


@pytest.mark.parametrize(("queued", "deaths", "shares"), [([], 1, True), ([0], 0, True), ([0], 1, False), ([1], 0, False)])
def test_a_batch_that_killed_an_actor_has_the_next_one_for_itself(queued: list[int], deaths: int, shares: bool) -> None:
    """An actor that dies at once can lose the answer to the batch before, which would be blamed, too."""
    queue = deque((object(), _Attempt([("row", "")], before)) for before in queued)
    assert _may_share(queue, _Attempt([("row", "")], deaths)) is shares


@pytest.mark.slow
def test_an_actor_that_is_killed_is_replaced_and_no_batch_is_lost(cpus: int, tmp_path: Path) -> None:
    rows = [(f"{number}", f"{number}") for number in range(400)]
    batches = run_pool(Mortal, (tmp_path,), batched(rows, 2), workers=min(1, cpus))
    results = found([next(batches)])
    (process,) = tmp_path.iterdir()
    os.kill(int(process.name), signal.SIGKILL)
    assert results | found(batches) == dict(rows)
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.slow
def test_values_come_in_the_order_of_their_rows_though_a_worker_is_killed(cpus: int, tmp_path: Path) -> None:
    rows = [(f"{number}", f"{number}") for number in range(200)]
    ray = RayOptions(num_cpus=2)
    with ordered_pool(Mortal, (tmp_path,), ray, documents=FEW_DOCUMENTS + 1) as run:
        values = run(batched(rows, 3))
        first = next(values)
        process = next(tmp_path.iterdir())
        os.kill(int(process.name), signal.SIGKILL)
        assert [first, *values] == [value for _, value in rows]
        assert list(run(batched(rows, 50))) == [value for _, value in rows], "the workers stay"
        with pytest.raises(TransientError, match=r"^bad: the worker died"):
            list(run([rows[:3], [("fine", "fine"), ("bad", "deadly")], rows[3:]]))


def test_one_process_runs_the_same_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray_jobs.pools.connected", None)
    rows = [(f"{number}", f"{number}") for number in range(9)]
    for ray, documents in ((RayOptions(), FEW_DOCUMENTS), (RayOptions(num_cpus=1), FEW_DOCUMENTS + 1)):
        with ordered_pool(Mortal, (tmp_path,), ray, documents=documents) as run:
            assert list(run(batched(rows, 2))) == [value for _, value in rows]


@pytest.mark.slow
def test_work_is_taken_as_it_is_wanted_and_the_actors_end_with_who_wanted_it(cpus: int, tmp_path: Path) -> None:
    row_count = 0

    def endless() -> Iterator[tuple[str, str]]:
        nonlocal row_count
        while True:
            row_count += 1
            yield str(row_count), "fine"

    batches = run_pool(Mortal, (tmp_path,), batched(endless(), 5), workers=cpus)
    for batch_count, _ in enumerate(batches, 1):
        assert row_count <= 5 * (batch_count + 2 * cpus)
        if batch_count >= 50 and len([*tmp_path.iterdir()]) == cpus:
            break
    processes = [psutil.Process(int(file.name)) for file in tmp_path.iterdir()]
    batches.close()
    psutil.wait_procs(processes, timeout=60)
    assert not any(process.is_running() for process in processes)


@pytest.mark.slow
def test_a_batch_for_which_there_is_no_memory_is_halved_down_to_the_row(cpus: int) -> None:
    rows = [(f"{number}", 9 if number == 5 else 1) for number in range(16)]
    batches = [*run_pool(Small, (4,), batched(rows, 8), workers=cpus)]
    results = found(batches)
    assert results.pop("5") is FailureCode.MEMORY_LIMIT
    assert results == dict.fromkeys(("0", "1", "2", "3", *map(str, range(8, 16))), 4) | {"4": 1, "6": 2, "7": 2}
    failures = [outcome.failure for outcomes in batches for outcome in outcomes if outcome.failure]
    assert [failure.message for failure in failures] == [
        "there is not enough memory for it: CUDA out of memory. Tried to allocate 2.00 GiB"
    ]


@pytest.mark.slow
def test_more_than_this_machine_has_is_refused_at_once(cpus: int) -> None:
    with pytest.raises(UserError, match=r"no node of the Ray cluster has 1 CPU and 4 GPU; .* corpus file"):
        list(run_pool(Broken, (), batched([("a", "bug")], 1), workers=cpus, num_gpus=4))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), FailureCode.MODEL_CRASHED),
        (RuntimeError("[ONNXRuntimeError] : 6 : std::bad_alloc"), FailureCode.MODEL_CRASHED),
        (RuntimeError("OpenCV(4.10) error: Insufficient memory in function 'OutOfMemoryError'"), FailureCode.MODEL_CRASHED),
        (ValueError("too few points"), FailureCode.MODEL_FAILED),
    ],
)
def test_memory_that_ran_out_says_nothing_about_the_picture(error: Exception, code: FailureCode) -> None:
    with (
        pytest.raises(BadInputError, match=r"RapidOCR failed on a picture: .+") as caught,
        rejecting_engine_errors("RapidOCR"),
    ):
        raise error
    assert caught.value.code is code


def test_only_a_failure_of_the_picture_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("broken", "starved", "fine"):
        picture = tmp_path / figure_file(name)
        picture.parent.mkdir(exist_ok=True)
        picture.write_bytes(name.encode())

    class Reader:
        def recognise(self, picture: bytes) -> list[RecognisedLine]:
            codes = {b"broken": FailureCode.IMAGE_REJECTED, b"starved": FailureCode.MODEL_CRASHED}
            if picture in codes:
                raise BadInputError(f"it is {picture.decode()}", codes[picture])
            return []

    monkeypatch.setattr("ray_jobs.enrich.RapidOcr", Reader)
    unfinished: dict[str, str] = {}
    figures = ("broken", "starved", "fine")
    read = [recognised for batch in recognise(figures, str(tmp_path), None, unfinished) for recognised in batch]
    assert {recognised.id: recognised.failure for recognised in read} == {"broken": "it is broken", "fine": None}
    assert unfinished == {"starved": "it is starved"}
