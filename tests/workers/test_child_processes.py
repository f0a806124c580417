"""Work in processes of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from backends.pdf.page import layout_model
from schemas.corpus import ParseOptions
from schemas.errors import ContractError, FailureCode, InsetError, NotFoundError, TransientError, UserError
from workers.child_processes import Done, Refused, prepare, run_all


def _variable(name: str, _opened: Callable[[int], None]) -> str | None:
    return os.environ.get(name)


def test_a_child_sees_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> list[object]:
        orders = run_all(_variable, ["INSET_TEST_CREDENTIAL"], ParseOptions(workers=1))
        return [last.result for _, last in orders if isinstance(last, Done)]

    assert seen() == [None]
    monkeypatch.setenv("INSET_TEST_CREDENTIAL", "set since")
    assert seen() == ["set since"]


def _loaded_models(_name: str, _opened: Callable[[int], None]) -> int:
    return layout_model.cache_info().currsize


@pytest.mark.parametrize(("parses", "model_count"), [(True, 1), (False, 0)])
def test_children_have_the_layout_model_that_their_server_loaded(parses: bool, model_count: int) -> None:
    code = (
        "from schemas.corpus import ParseOptions; from workers.child_processes import prepare, run_all\n"
        "from tests.workers.test_child_processes import _loaded_models\n"
        f"prepare(parses={parses}); print([last.result for _, last in run_all(_loaded_models, [''], ParseOptions())])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.stdout == f"[{model_count}]\n", process.stderr


def test_a_process_of_celerys_default_pool_says_which_pool_to_use() -> None:
    code = (
        "import billiard; from schemas.corpus import ParseOptions; from workers.child_processes import run_all\n"
        "from tests.workers.test_child_processes import _variable\n"
        "def work(): list(run_all(_variable, ['HOME'], ParseOptions(workers=1)))\n"
        "process = billiard.Process(target=work, daemon=True); process.start(); process.join()"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UserError: PDFs are read in child processes" in process.stderr
    assert process.stderr.endswith("set [celery] pool = solo\n")


class _Client:
    """Made of a credential, wherever it is made: sent to a child, it is made there."""

    def __init__(self) -> None:
        self.credential = os.environ.get("INSET_TEST_CREDENTIAL")

    def __reduce__(self) -> tuple[type["_Client"], tuple[()]]:
        return _Client, ()


def _credential(client: _Client, _opened: Callable[[int], None]) -> str | None:
    return client.credential


def test_what_an_order_holds_is_made_in_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare()
    monkeypatch.setenv("INSET_TEST_CREDENTIAL", "set since")
    outcomes = [last for _, last in run_all(_credential, [_Client()], ParseOptions(workers=1))]
    assert outcomes == [Done("set since")]


def _say_and_wait(_task: None, _opened: Callable[[int], None]) -> None:
    os.write(1, b"begun\n")
    signal.pause()


def test_children_end_in_silence_with_a_run_that_is_killed() -> None:
    code = (
        "from schemas.corpus import ParseOptions; from workers.child_processes import run_all\n"
        "from tests.workers.test_child_processes import _say_and_wait\n"
        "list(run_all(_say_and_wait, [None, None], ParseOptions(workers=2)))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert [run.stdout.readline() for _ in range(2)] == [b"begun\n"] * 2
        run.kill()
        assert run.communicate() == (b"", b""), "it returns once the last child has closed its end"


def _raise(error: Exception, _opened: Callable[[int], None]) -> None:
    raise error


@pytest.mark.parametrize("kind", [TransientError, UserError, NotFoundError, ContractError])
def test_an_error_of_ours_is_the_same_here_as_in_the_child(kind: type[InsetError]) -> None:
    """A user's mistake that came out as transient would be tried again and again."""
    with pytest.raises(InsetError) as caught:
        list(run_all(_raise, [kind("the store may not be written to\x1b[2J")], ParseOptions(workers=1)))
    assert type(caught.value) is kind
    assert caught.value.message == r"the store may not be written to\x1b[2J"


def test_what_nobody_foresaw_costs_the_order_and_is_one_line() -> None:
    ((_, last),) = run_all(_raise, [ZeroDivisionError("no\ncolumns")], ParseOptions(workers=1))
    assert last == Refused(FailureCode.CRASHED, r"reading it failed: ZeroDivisionError: no\ncolumns")


def _wait(pages: int, opened: Callable[[int], None]) -> str:
    opened(pages)
    time.sleep(0.8)
    return "waited"


def test_wall_time_is_limited_too_and_each_page_extends_it() -> None:
    limits = ParseOptions(workers=2, timeout_s=0.03)
    lasts = dict(run_all(_wait, [0, 2], limits))
    assert isinstance(lasts[0], Refused)
    assert lasts[0].code is FailureCode.TIME_LIMIT
    assert lasts[2] == Done("waited")


def test_a_task_killed_from_outside_is_refused_alone() -> None:
    lasts = dict(run_all(_kill_itself, [signal.SIGKILL, 0, signal.SIGSEGV], ParseOptions(workers=1)))
    codes = {task: last.code for task, last in lasts.items() if isinstance(last, Refused)}
    assert codes == {signal.SIGKILL: FailureCode.MEMORY_LIMIT, signal.SIGSEGV: FailureCode.CRASHED}
    assert lasts[0] == Done(None)


def _kill_itself(number: int, _opened: Callable[[int], None]) -> None:
    os.kill(os.getpid(), number)
