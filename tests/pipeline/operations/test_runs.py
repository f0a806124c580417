"""What an operator sees of a run: plan, stages, gates, questions, at any size."""

import json
from collections import Counter
from pathlib import Path

import pytest

from pipeline.corpus.schedules import CorpusSchedule
from pipeline.corpus.workspace import Workspace
from pipeline.operations.runs import run_report, version_of_run
from pipeline.records.notes import StageNote, write_note, write_plan
from pipeline.run import refresh
from schemas.errors import UserError
from schemas.evidence import EVIDENCE
from schemas.gates import GateResult
from schemas.ids import version_file
from schemas.ports import ObjectStore
from schemas.stages import Stage
from schemas.versions import ExpectedCalls, Plan, PlanSummary, RunOptions, Spent
from tests.manuals import write_manual
from tests.pipeline.operations.corpora import HOLDS, REFUSES, schedule_of, version_name, write_corpus, write_version


def write_planned(
    store: ObjectStore, number: int, *, shards: int = 1, documents: int = 1, run_id: str | None = None
) -> str:
    """Write the plan of a version, by ``run-<number>`` unless another run is named."""
    version = version_name(number)
    calls = ExpectedCalls(items=20, estimated=5, affordable=15, spent=Spent(calls=20, money=2.5))
    summary = PlanSummary(
        new=documents,
        changed=0,
        gone=1,
        kept=6,
        to_parse=documents,
        bytes_to_parse=1,
        sources={"new": [f"manual_{index:05}.pdf" for index in range(documents)], "changed": [], "gone": ["old.pdf"]},
        captions={"vlm": calls},
    )
    plan = Plan(
        run_id=run_id or f"run-{number}",
        version=version,
        fingerprint="f",
        parent=version_name(number - 1),
        summary=summary,
        carried=[],
        shards=[[f"{shard:064x}"] * (documents // shards) for shard in range(shards)],
        options=RunOptions(replay=True),
    )
    write_plan(store, plan)
    return version


@pytest.mark.slow
def test_a_run_shows_what_it_planned_and_how_long_each_stage_took(published: Workspace) -> None:
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    version, store = refresh(published, run_id="airflow:nightly").version, published.store
    assert version is not None
    assert version_of_run(store, "airflow:nightly") == version
    assert version_of_run(store, "airflow:another") is None
    schedule = CorpusSchedule("manuals", published.file, None, store=store.root)
    report = run_report(schedule, store, version)
    assert report.plan is not None
    assert (report.plan.new, report.plan.sources["new"]) == (1, ["crane.pdf"])
    assert [stage.stage for stage in report.stages] == ["parse", "enrich", "assemble", "check", "build", "evaluate"]
    assert all(stage.seconds is not None for stage in report.stages)
    assert "crane.pdf" in report.note
    required = {f"rows: {field.name} is never missing" for field in EVIDENCE if not field.nullable}
    assert required | {"documents conserved"} <= {gate.gate for gate in report.gates}
    assert report.docs is not None
    assert Path(report.docs).is_file()


def test_a_run_under_way_shows_its_plan(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    version = write_planned(store, 1, shards=3, documents=30)
    assert version_of_run(store, "run-1") == version
    report = run_report(schedule_of("pumps"), store, version)
    assert (report.version.state, report.run_id, report.parent) == ("unfinished", "run-1", version_name(0))
    assert report.options.replay
    assert {stage.seconds for stage in report.stages} == {None}
    assert report.plan is not None
    assert (report.plan.captions["vlm"].spent.money, report.spent) == (2.5, {})
    assert report.gates == []


def test_the_plan_of_an_earlier_release_is_read_without_its_options(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    plan_file = version_file(write_planned(store, 1), "plan.json")
    plan = json.loads(store.get(plan_file))
    plan |= {"listing": "f", "corpus": {"name": "pumps", "source": "pdfs", "operations": {"watch_s": None}}}
    store.replace(plan_file, json.dumps(plan).encode())
    assert run_report(schedule_of("pumps"), store, version_name(1)).plan is not None


def test_refusals_come_first_and_invariants_last(folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    invariant = GateResult(gate="tags resolve", passed=True, value=0.0, bound=0.0, message="all tags lead to figures")
    version = write_version(store, "pumps", 0, gates=[HOLDS, invariant, REFUSES])
    report = run_report(schedule_of("pumps"), store, version)
    assert [gate.gate for gate in report.gates] == ["rows not lost", "quarantine ceiling", "tags resolve"]
    assert report.version.state == "refused"
    assert "a loss of 80 %" in report.version.refusals[0]


def test_a_version_that_is_not_there_is_said(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    with pytest.raises(UserError, match="there is no version"):
        run_report(schedule_of("pumps"), store, version_name(7))


def test_a_run_of_ten_thousand_documents_among_a_hundred_versions_costs_few_reads(
    folder: Path, reads: Counter[str]
) -> None:
    store = write_corpus(folder, "pumps", versions=100)
    version, note = version_name(99), StageNote(seconds=1.0, counts={"rows": 5})
    write_planned(store, 99, shards=200, documents=10_000)
    for shard in range(200):
        write_note(store, version, Stage.PARSE, note, shard=shard)
    for stage in (Stage.ENRICH, Stage.ASSEMBLE, Stage.CHECK, Stage.BUILD, Stage.EVALUATE):
        write_note(store, version, stage, note)
    reads.clear()
    assert version_of_run(store, "run-50") == version_name(50)
    assert reads == {"manifest.json": 50}, "newest first, until it is found"
    reads.clear()
    assert version_of_run(store, "run-50") == version_name(50)
    assert reads == {}
    run_report(schedule_of("pumps"), store, version)
    assert not [name for name in reads if name.startswith("parse-")]
    assert reads["manifest.json"] <= 2
    assert sum(reads.values()) <= 15
