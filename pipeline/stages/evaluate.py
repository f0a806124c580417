"""Stage 7: the corpus's golden questions, put to the built version and to the live one."""

import json
import time
from collections.abc import Sequence

from evaluation.gates import retrieval_gates
from evaluation.golden import ModeReport, Placed, ask
from evaluation.questions import Question, load_questions
from pipeline.corpus.models import is_here
from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.collection import holds
from pipeline.records.evidence import read_placements
from pipeline.records.ledger import read_ledger
from pipeline.records.notes import StageNote, read_plan, write_note
from pipeline.records.publication import readable_manifest
from schemas.errors import TransientError
from schemas.evidence import Filters, Hit
from schemas.gates import NO_QUESTIONS, RECALL_KEPT
from schemas.geometry import BBox
from schemas.ids import version_file
from schemas.stages import Stage
from schemas.versions import GateResult, Manifest
from tasks.answering.modes import DEFAULT_MODE, MODES, Mode
from tasks.versions.check import quarantine_ceiling


def evaluate(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Ask the golden questions in every mode, compare with the live version, and judge the loss.

    The reports go to the version's ``evaluation/``. Without golden questions there is nothing to judge, and a gate says so.
    """
    started = time.monotonic()
    plan = read_plan(workspace.store, version)
    gates = [_quarantine_gate(workspace, version)]
    if workspace.corpus.questions is None:
        message = "the corpus has no golden questions; retrieval is not judged"
        gates.append(GateResult(gate=NO_QUESTIONS, passed=True, value=None, bound=None, message=message))
    else:
        questions = load_questions(workspace.corpus.questions)
        ours = _reports(workspace, version, questions, list(MODES.values()), report)
        live = None
        if plan.parent and _can_be_asked(workspace, plan.parent):
            live = _reports(workspace, plan.parent, questions, [DEFAULT_MODE], report)[DEFAULT_MODE.name]
        elif plan.parent:
            message = f"nobody can search {plan.parent} any more, so this version can't be worse"
            gates.append(GateResult(gate=RECALL_KEPT.name, passed=True, value=None, bound=None, message=message))
        gates += retrieval_gates(questions, ours, live, workspace.corpus.gates)
        for name, made in [*ours.items(), *([("live", live)] if live else [])]:
            data = json.dumps(made.model_dump(mode="json"), indent=1).encode()
            workspace.store.replace(version_file(version, f"evaluation/{name}.json"), data)
    note = StageNote(seconds=time.monotonic() - started, gates=gates, ranking=workspace.corpus.ranking)
    return write_note(workspace.store, version, Stage.EVALUATE, note)


def _can_be_asked(workspace: Workspace, version: str) -> bool:
    manifest = readable_manifest(workspace.store, version)
    try:
        return manifest is not None and holds(workspace, manifest) and _has_models(manifest)
    except TransientError:
        return False


def _has_models(manifest: Manifest) -> bool:
    return all(is_here(name, manifest.spaces[name]) for name in DEFAULT_MODE.spaces)


def _reports(
    workspace: Workspace, version: str, questions: Sequence[Question], modes: Sequence[Mode], report: Report
) -> dict[str, ModeReport]:
    opened = open_version(workspace, version)
    placed = _placed(workspace, opened)
    reports: dict[str, ModeReport] = {}
    known = [mode for mode in modes if opened.embedders.keys() >= set(mode.spaces)]
    for done, mode in enumerate(known, 1):
        reports[mode.name] = ask(questions, lambda query, mode, k: _hits(opened, query, mode, k), mode.name, placed)
        report(Stage.EVALUATE, done, len(known))
    return reports


def _hits(opened: OpenVersion, query: str, mode: str, k: int) -> Sequence[Hit]:
    return opened.search(query, mode=mode, k=k, filters=Filters()).hits


def _placed(workspace: Workspace, opened: OpenVersion) -> Placed:
    table = read_placements(workspace.store, opened.version)
    placed: dict[str, list[tuple[str, int, BBox]]] = {}
    for row in table.select(["doc_id", "page", "bbox", "figure_id"]).to_pylist():
        for source in opened.sources.get(row["doc_id"], []):
            name = source.rpartition("/")[2]
            placed.setdefault(row["figure_id"], []).append((name, row["page"], BBox(*row["bbox"])))
    return placed


def _quarantine_gate(workspace: Workspace, version: str) -> GateResult:
    corpus = workspace.corpus
    return quarantine_ceiling(read_ledger(workspace.store, version), corpus.gates, corpus.name)
