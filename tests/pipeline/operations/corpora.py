"""Corpora whose stores hold pointers and manifests only, made without a refresh."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backends.stores.object_store import open_store
from pipeline.corpus.schedules import CorpusSchedule, corpus_schedules
from pipeline.records.manifests import manifest_name
from pipeline.records.publication import move_pointer
from schemas.gates import GateResult
from schemas.ports import ObjectStore
from schemas.versions import Counts, Manifest, Spent

START = datetime(2026, 3, 1, 5, tzinfo=UTC)
HOLDS = GateResult(gate="quarantine ceiling", passed=True, value=0.05, bound=0.2, message="5 % in quarantine")
REFUSES = GateResult(gate="rows not lost", passed=False, value=0.8, bound=0.5, message="a loss of 80 %; see what is gone")


def version_name(number: int) -> str:
    """Return the name of the version of a day, counted from ``START``."""
    return f"{START + timedelta(days=number):%Y%m%dT%H%M%SZ}-{number:08x}"


def write_version(
    store: ObjectStore,
    corpus: str,
    number: int,
    *,
    rows: int = 100,
    gates: Sequence[GateResult] = (HOLDS,),
    run_id: str | None = None,
) -> str:
    """Write the manifest of a finished version."""
    version = version_name(number)
    manifest = Manifest(
        version=version,
        corpus=corpus,
        fingerprint=f"{number:016x}",
        parent=version_name(number - 1) if number else None,
        created=START + timedelta(days=number, minutes=7),
        run_id=run_id or f"run-{number}",
        code_version="0.1.0",
        keys={},
        models={},
        spaces={},
        spent={"vlm": Spent(calls=12, money=1.5)},
        parameters={},
        counts=Counts(sources=11, documents=10, quarantined=1, figures=30, rows=rows),
        collection="c",
        gates=list(gates),
    )
    store.replace(manifest_name(version), manifest.model_dump_json().encode())
    return version


def publish(store: ObjectStore, version: str, *, before: str | None = None, is_held: bool = False) -> None:
    """Make a version live a day ago."""
    move_pointer(store, version, expected=before, is_held=is_held, since=datetime.now(UTC) - timedelta(days=1))


def write_corpus(folder: Path, name: str, *, versions: int = 0, more: str = "") -> ObjectStore:
    """Write a corpus file and a store with versions, of which the last is live; return the store."""
    files = folder / "corpora"
    files.mkdir(exist_ok=True)
    (files / f"{name}.yaml").write_text(f"name: {name}\nsource: ../pdfs\n{more}")
    store = open_store(str(folder / ".inset" / "store" / name))
    for number in range(versions):
        write_version(store, name, number, rows=100 + number)
    if versions:
        publish(store, version_name(versions - 1), before=None)
    return store


def schedule_of(name: str) -> CorpusSchedule:
    """Return the entry of a corpus of the corpora folder."""
    return next(schedule for schedule in corpus_schedules() if schedule.name == name)
