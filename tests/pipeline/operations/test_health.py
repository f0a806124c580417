"""The state of each corpus, at any size, whatever is wrong with another one."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backends.stores import object_store
from pipeline.corpus.schedules import corpus_schedules
from pipeline.operations.health import corpora_health, corpus_health
from pipeline.records import lease, problems
from pipeline.records.manifests import manifest_name
from pipeline.records.notes import RefreshState, note_refresh
from pipeline.records.publication import LIVE, publish_version, reject_version, roll_back
from pipeline.records.states import State
from schemas.errors import GateError
from tests.pipeline.operations.corpora import REFUSES, publish, schedule_of, version_name, write_corpus, write_version

NOW = datetime.now(UTC)


def test_a_published_corpus_is_ok_and_shows_what_it_holds(folder: Path) -> None:
    write_corpus(folder, "pumps", versions=3)
    health = corpus_health(schedule_of("pumps"), NOW)
    assert (health.state, health.problems, health.live) == (State.OK, [], version_name(2))
    assert health.counts is not None
    assert (health.counts.documents, health.counts.figures, health.counts.quarantined) == (10, 30, 1)
    assert health.spent is not None
    assert (health.spent.calls, health.spent.money) == (12, 1.5)
    assert [gate.gate for gate in health.gates] == ["quarantine ceiling"]


def test_a_refused_version_says_why_until_it_is_published_anyway(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=2)
    refused = write_version(store, "pumps", 2, gates=[REFUSES])
    health = corpus_health(schedule_of("pumps"), NOW)
    assert (health.state, health.live, health.newest) == (State.REFUSED, version_name(1), refused)
    assert "a loss of 80 %" in health.problems[0]
    publish_version(store, "pumps", refused, override="the documents moved")
    assert corpus_health(schedule_of("pumps"), NOW).state is State.OK


def test_a_rolled_back_corpus_is_held(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    publish(store, write_version(store, "pumps", 1), before=version_name(0))
    roll_back(store, "pumps")
    health = corpus_health(schedule_of("pumps"), NOW)
    assert (health.state, health.held, health.live) == (State.HELD, True, version_name(0))


def test_a_corpus_is_stale_once_two_scheduled_times_passed_without_a_run(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1, more='schedule: "@daily"\n')
    lease.acquire(store, "run", tied_to_process=False)
    lease.release(store, "run")
    assert corpus_health(schedule_of("pumps"), NOW + timedelta(hours=1)).state is State.OK
    late = corpus_health(schedule_of("pumps"), NOW + timedelta(days=3))
    assert late.state is State.STALE
    assert "@daily" in late.problems[0]
    assert late.due is not None
    assert late.due > NOW + timedelta(days=3)


@pytest.mark.parametrize(
    ("extra", "runs"),
    [
        ("", "by hand"),
        ('schedule: "@daily"\n', "@daily"),
        ("operations: {after_asset: 's3://manuals'}\n", "when s3://manuals is updated"),
    ],
)
def test_it_says_when_a_corpus_is_refreshed(folder: Path, extra: str, runs: str) -> None:
    write_corpus(folder, "pumps", more=extra)
    assert corpus_health(schedule_of("pumps"), NOW).runs == runs


def test_a_run_under_way_is_shown_and_a_dead_one_is_unfinished(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    store.replace(f"versions/{version_name(1)}/plan.json", b"{}")
    lease.acquire(store, "airflow:nightly", tied_to_process=False)
    running = corpus_health(schedule_of("pumps"), datetime.now(UTC))
    assert (running.state, running.refreshing) == (State.OK, "airflow:nightly")
    dead = corpus_health(schedule_of("pumps"), datetime.now(UTC) + lease.TERM + timedelta(seconds=1))
    assert (dead.state, dead.refreshing) == (State.UNFINISHED, None)
    assert version_name(1) in dead.problems[0]


def test_a_run_that_waits_for_a_slot_is_under_way(folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    store.replace(f"versions/{version_name(0)}/plan.json", b"{}")
    note_refresh(store, "airflow:nightly", "started")
    lease.acquire(store, "airflow:nightly", tied_to_process=False)
    last_word = datetime.now(UTC) + lease.TERM
    waiting = corpus_health(schedule_of("pumps"), last_word + timedelta(minutes=50))
    assert (waiting.state, waiting.refreshing) == (State.EMPTY, "airflow:nightly")
    assert corpus_health(schedule_of("pumps"), last_word + timedelta(minutes=70)).state is State.UNFINISHED
    note_refresh(store, "airflow:nightly", "failed", "parse: its process was killed")
    assert corpus_health(schedule_of("pumps"), datetime.now(UTC)).state is State.UNFINISHED, "Airflow has said so"


def test_what_a_corpus_file_names_is_made_where_the_file_is_checked(folder: Path) -> None:
    wrong = {
        "plugins.notify.Webhok: {}": "Webhok",
        "plugins.notify.Webhook: {urll: x}": "urll",
        "nowhere.Hook: {}": "nowhere",
    }
    for notifier, problem in wrong.items():
        write_corpus(folder, "pumps", more=f"operations: {{announce: {{{notifier}}}}}\n")
        health = corpus_health(schedule_of("pumps"), NOW)
        assert health.state is State.BROKEN
        assert "operations.announce: " in health.problems[0]
        assert problem in health.problems[0]
    write_corpus(folder, "pumps", more="schedule: a b c d e\n")
    assert corpus_health(schedule_of("pumps"), NOW).state is State.BROKEN


def test_each_corpus_has_a_line_whatever_is_wrong_with_the_others(folder: Path) -> None:
    write_corpus(folder, "good", versions=1)
    write_corpus(folder, "empty")
    damaged = write_corpus(folder, "damaged", versions=1)
    Path(damaged.root, LIVE).write_text("{")
    lost = write_corpus(folder, "lost", versions=1)
    lost.delete(manifest_name(version_name(0)))
    (folder / "corpora" / "broken.yaml").write_text("name: broken\nsourc: x\n")
    health_by_corpus = {health.corpus: health for health in corpora_health(corpus_schedules())}
    assert {name: health.state for name, health in health_by_corpus.items()} == {
        "good": State.OK,
        "empty": State.EMPTY,
        "damaged": State.DAMAGED,
        "lost": State.DAMAGED,
        "broken": State.BROKEN,
    }
    assert all(health.problems for name, health in health_by_corpus.items() if name != "good")
    assert health_by_corpus["lost"].live == version_name(0)
    assert health_by_corpus["empty"].problems == ["nothing is published yet; run: inset refresh empty, or its DAG"]


def test_a_store_that_never_answers_costs_its_own_line_and_is_asked_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(folder, "good", versions=1)
    write_corpus(folder, "hangs", versions=1)
    read_counts = Counter[str]()
    read = object_store.FolderStore.read_mutable
    answers = threading.Event()

    def read_slowly(self: object_store.FolderStore, name: str, *, fresh: bool = True) -> tuple[bytes, str] | None:
        if name == LIVE:
            read_counts[self.root.rpartition("/")[2]] += 1
            assert "hangs" not in self.root or answers.wait(60)
        return read(self, name, fresh=fresh)

    monkeypatch.setattr(object_store.FolderStore, "read_mutable", read_slowly)
    for _ in range(3):
        started = time.monotonic()
        states = {health.corpus: health.state for health in corpora_health(corpus_schedules(), timeout_s=0.5)}
        assert time.monotonic() - started < 5
        assert states == {"good": State.OK, "hangs": State.UNREACHABLE}
    assert read_counts == {"good": 3, "hangs": 1}
    answers.set()
    assert {health.state for health in corpora_health(corpus_schedules(), timeout_s=60)} == {State.OK}


def test_requests_at_the_same_time_share_one_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(folder, "pumps", versions=1)
    read = object_store.FolderStore.read_mutable
    released = threading.Event()

    def read_later(self: object_store.FolderStore, name: str, *, fresh: bool = True) -> tuple[bytes, str] | None:
        assert released.wait(60)
        return read(self, name, fresh=fresh)

    monkeypatch.setattr(object_store.FolderStore, "read_mutable", read_later)
    with ThreadPoolExecutor(2) as requests:
        futures = [requests.submit(corpora_health, corpus_schedules(), timeout_s=60) for _ in range(2)]
        threading.Timer(0.3, released.set).start()
        assert [future.result()[0].state for future in futures] == [State.OK, State.OK]


def test_corpora_of_many_versions_cost_few_small_reads(folder: Path, reads: Counter[str]) -> None:
    for number in range(5):
        write_corpus(folder, f"corpus_{number:02}", versions=20)
    reads.clear()
    assert {health.state for health in corpora_health(corpus_schedules(), timeout_s=60)} == {State.OK}
    assert set(reads) <= {"LIVE", "LEASE", "manifest.json", "last_refresh.json"}
    assert reads == {"LIVE": 5, "LEASE": 5, "last_refresh.json": 5, "manifest.json": 5}


@pytest.mark.parametrize(
    ("state", "expected", "problem"),
    [
        ("waiting", State.WAITING, "it waits for your answer until"),
        ("retrying", State.RETRYING, "plan is tried again, 2 of 13: the source is gone"),
        ("failed", State.UNFINISHED, "the last run failed: plan is tried again"),
        ("rejected", State.REFUSED, "plan is tried again"),
    ],
)
def test_what_the_last_run_waits_for_or_why_it_failed_is_shown(
    folder: Path, state: RefreshState, expected: State, problem: str
) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    message = "plan is tried again, 2 of 13: the source is gone"
    until = NOW + timedelta(minutes=30)
    note_refresh(store, "airflow:manual__1", state, message, task="plan", until=until)
    health = corpus_health(schedule_of("pumps"), NOW)
    assert health.state is expected
    assert problem in health.problems[0]
    question = "dags/refresh_pumps/runs/manual__1/tasks/plan/required_actions"
    assert health.question == (question if state == "waiting" else None)
    if state in ("waiting", "retrying"):
        assert corpus_health(schedule_of("pumps"), NOW + timedelta(hours=3)).state is State.UNFINISHED


def test_a_broken_file_keeps_the_live_version_in_reach(folder: Path) -> None:
    write_corpus(folder, "pumps", versions=1)
    (folder / "corpora" / "pumps.yaml").write_text("name: pumps\nsourc: x\n")
    health = corpus_health(schedule_of("pumps"), NOW)
    assert (health.state, health.live, health.stored) == (State.BROKEN, version_name(0), True)


def test_a_full_disk_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(folder, "pumps", versions=1)
    monkeypatch.setattr(problems, "FREE_BYTES", 1 << 62)
    assert corpus_health(schedule_of("pumps"), NOW).state is State.FULL


def test_a_rejected_version_stays_refused_until_somebody_publishes_it_anyway(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    version = write_version(store, "pumps", 1)
    assert corpus_health(schedule_of("pumps"), NOW).state is State.OK
    reject_version(store, version, by="ada", reason="figures are missing")
    health = corpus_health(schedule_of("pumps"), NOW)
    assert health.state is State.REFUSED
    assert "rejected by ada" in health.problems[0]
    with pytest.raises(GateError, match="figures are missing"):
        publish_version(store, "pumps", version)
    publish_version(store, "pumps", version, override="they came")
    assert corpus_health(schedule_of("pumps"), NOW).state is State.OK
