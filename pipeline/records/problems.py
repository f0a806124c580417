"""What is wrong with a corpus: the one place that says so, whoever asks."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from croniter import croniter

from backends.stores.objects import is_remote, read_mutable, unless_damaged
from pipeline.corpus.schedules import CorpusSchedule
from pipeline.records.lease import LEASE
from pipeline.records.manifests import read_manifest, readable_manifest, state_of
from pipeline.records.notes import LastRefresh, read_last_refresh
from pipeline.records.publication import read_pointer
from pipeline.records.states import State
from schemas.ports import ObjectStore
from schemas.versions import Lease, Manifest, Pointer

FREE_BYTES = 1 << 30
"""Free bytes below which the disk of a store counts as full: a refresh of some hundred documents writes as much."""


def free_bytes(store: ObjectStore) -> int | None:
    """Return the free bytes of the disk of a store; None of one in S3."""
    if is_remote(store):
        return None
    root = Path(store.root)
    return shutil.disk_usage(next(folder for folder in (root, *root.parents) if folder.exists())).free


_OVERDUE = timedelta(hours=1)
"""Longest delay of the next task or try, or of the end of a question, before its run counts as dead."""


class CorpusProblem(NamedTuple):
    """A state that a corpus is in, with a line that says why."""

    state: State
    message: str


@dataclass(frozen=True)
class Standing:
    """What pointer, lease, manifests and the note of the last run say of a corpus.

    Attributes:
        live: The live version's manifest; None where nothing is published, or it is missing.
        newest: That of the newest finished version, which the gates judged.
        unfinished: The newest version that was begun after it.
        refreshing: The run that holds the lease now.
        last_run: When the last run ended, or was last alive; None where there was none.
    """

    pointer: Pointer | None
    live: Manifest | None
    newest: Manifest | None
    unfinished: str | None
    refreshing: str | None
    last: LastRefresh | None
    last_run: datetime | None


def read_standing(store: ObjectStore, now: datetime) -> Standing:
    """Read how a corpus stands; raises ``DamagedError`` where the pointer, or the live version's manifest, can't be read."""
    pointer = read_pointer(store)
    live = read_manifest(store, pointer.version) if pointer else None
    # Most often the newest folder is that of the live version. One without a manifest isn't finished.
    newest, unfinished = live, None
    for name in reversed(store.folders("versions")):
        manifest = live if live and name == live.version else readable_manifest(store, name)
        if manifest is not None:
            newest = manifest
            break
        unfinished = unfinished or name
    # A damaged lease is replaced by the next refresh.
    (lease, _), last = unless_damaged(lambda: read_mutable(store, LEASE, Lease)) or (None, None), read_last_refresh(store)
    refreshing = lease.run_id if lease and lease.run_id and lease.until + _silence_of(lease, last) > now else None
    last_run = last.at if last else min(lease.until, now) if lease else newest.created if newest else None
    return Standing(pointer, live, newest, unfinished, refreshing, last, last_run)


def problems_of(schedule: CorpusSchedule, store: ObjectStore, standing: Standing, now: datetime) -> list[CorpusProblem]:
    """Return what is wrong with a corpus, the worst first; [] where all is well."""
    last = standing.last
    problems = [CorpusProblem(State.BROKEN, text) for text in schedule.problem.splitlines()]
    problems += _of_versions(schedule, store, standing.pointer, standing.live, standing.newest)
    if (free := free_bytes(store)) is not None and free < FREE_BYTES:
        message = f"the disk of {store.root} is full: {free >> 20} MiB are free; make room there"
        problems.append(CorpusProblem(State.FULL, message))
    if last is not None and (run_problem := _run_problem(last, standing.pointer, now)) is not None:
        problems.append(run_problem)
    elif standing.unfinished and not standing.refreshing:
        message = f"{standing.unfinished} was begun and not finished; the log of its run says why"
        problems.append(CorpusProblem(State.UNFINISHED, message))
    if overdue := _late(schedule, standing.last_run, now):
        problems.append(CorpusProblem(State.STALE, overdue))
    if standing.pointer is None and not problems:
        message = f"nothing is published yet; run: inset refresh {schedule.name}, or its DAG"
        problems.append(CorpusProblem(State.EMPTY, message))
    return sorted(problems, key=lambda problem: problem.state.severity)


def _of_versions(
    schedule: CorpusSchedule, store: ObjectStore, pointer: Pointer | None, live: Manifest | None, newest: Manifest | None
) -> Iterator[CorpusProblem]:
    if pointer and live is None:
        message = f"the manifest of the live version {pointer.version} is missing; run: inset doctor {schedule.name}"
        yield CorpusProblem(State.DAMAGED, message)
    if newest and newest is not live and (row := state_of(store, newest.version, pointer)).state == "refused":
        for refusal in row.refusals:
            yield CorpusProblem(State.REFUSED, f"{newest.version} was refused: {refusal}")
    if pointer and pointer.held:
        yield CorpusProblem(
            State.HELD, "held since a rollback: refreshes publish nothing until somebody publishes a version"
        )


def _silence_of(lease: Lease, last: LastRefresh | None) -> timedelta:
    """Return how long a run may be silent: between tasks, one of Airflow waits for a slot; Airflow says where it fails."""
    is_begun = last is not None and (last.run_id, last.state) == (lease.run_id, "started")
    return _OVERDUE if is_begun and lease.run_id.startswith("airflow:") else timedelta()


def _run_problem(last: LastRefresh, pointer: Pointer | None, now: datetime) -> CorpusProblem | None:
    """Return what the last run waits for, or why it failed, unless somebody moved the live version since."""
    if pointer is not None and pointer.since > last.at:
        return None
    match last.state:
        case "waiting" | "retrying" if last.until is not None and last.until + _OVERDUE < now:
            return CorpusProblem(State.UNFINISHED, f"{last.run_id} ended without a word; it had said: {last.message}")
        case "waiting":
            until = f" until {last.until:%Y-%m-%d %H:%M} UTC" if last.until else ""
            return CorpusProblem(
                State.WAITING, f"it waits for your answer{until}: {last.message} Later runs wait for it too"
            )
        case "retrying":
            return CorpusProblem(State.RETRYING, last.message)
        case "failed":
            return CorpusProblem(State.UNFINISHED, f"the last run failed: {last.message}")
        case "rejected":
            return CorpusProblem(State.REFUSED, last.message)
    return None


def _late(schedule: CorpusSchedule, last_run: datetime | None, now: datetime) -> str:
    """Return a line where two scheduled times passed since the last run, one of which may be under way."""
    if last_run is None or schedule.schedule is None or not croniter.is_valid(schedule.schedule):
        return ""
    times = croniter(schedule.schedule, now)
    times.get_prev(datetime)
    last_but_one: datetime = times.get_prev(datetime)
    late = f"no run since {last_run:%Y-%m-%d %H:%M} UTC, though it is scheduled {schedule.schedule}"
    return late if last_run < last_but_one else ""
