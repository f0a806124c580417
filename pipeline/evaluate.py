"""Stage 7: the corpus's golden questions, put to the built version and to the live one."""

import json
import time
from collections.abc import Sequence

from evaluation.golden import ModeReport, Placed, ask
from evaluation.metrics import paired_bootstrap
from evaluation.questions import Question, load_questions
from pipeline.build import holds
from pipeline.publication import read_manifest
from pipeline.published import OpenVersion, open_version
from pipeline.stages import StageNote, read_notes, read_plan, version_file, write_note
from pipeline.workspace import Report, Workspace, silent
from schemas.corpus import GateOptions
from schemas.errors import TransientError
from schemas.evidence import MODES, Filters, Hit, Mode
from schemas.geometry import BBox
from schemas.parquet import from_parquet
from schemas.versions import GateResult


def evaluate(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Ask the golden questions in every mode, compare with the live version, and judge the loss.

    The reports go to the version's ``evaluation/``. Without golden questions there is nothing to judge, and a gate says so.
    """
    started = time.monotonic()
    plan = read_plan(workspace.store, version)
    gates = [_quarantine_gate(workspace, version)]
    if workspace.corpus.questions is None:
        gates.append(
            _gate("golden questions", True, None, None, "the corpus has no golden questions; retrieval is not judged")
        )
    else:
        questions = load_questions(workspace.corpus.questions)
        ours = _reports(workspace, version, questions, MODES, report)
        live = None
        if plan.parent and _can_be_asked(workspace, plan.parent):
            live = _reports(workspace, plan.parent, questions, ("hybrid",), report)["hybrid"]
        elif plan.parent:
            message = f"nobody can search {plan.parent} any more, so this version can't be worse"
            gates.append(_gate("recall against the live version", True, None, None, message))
        gates += _retrieval_gates(ours, live, workspace.corpus.gates)
        for name, made in [*ours.items(), *([("live", live)] if live else [])]:
            data = json.dumps(made.model_dump(mode="json"), indent=1).encode()
            workspace.store.replace(version_file(version, f"evaluation/{name}.json"), data)
    return write_note(workspace.store, version, "evaluate", StageNote(seconds=time.monotonic() - started, gates=gates))


def _can_be_asked(workspace: Workspace, version: str) -> bool:
    manifest = read_manifest(workspace.store, version)
    try:
        return manifest is not None and holds(workspace, manifest)
    except TransientError:
        return False


def _reports(
    workspace: Workspace, version: str, questions: Sequence[Question], modes: Sequence[Mode], report: Report
) -> dict[Mode, ModeReport]:
    opened = open_version(workspace, version)
    placed = _placed(workspace, opened)
    reports: dict[Mode, ModeReport] = {}
    for done, mode in enumerate(modes, 1):
        reports[mode] = ask(questions, lambda query, mode, k: _hits(opened, query, mode, k), mode, placed)
        report("evaluate", done, len(modes))
    return reports


def _hits(opened: OpenVersion, query: str, mode: Mode, k: int) -> Sequence[Hit]:
    return opened.search(query, mode=mode, k=k, filters=Filters()).hits


def _placed(workspace: Workspace, opened: OpenVersion) -> Placed:
    table = from_parquet(workspace.store.get(version_file(opened.version, "placements.parquet")))
    placed: dict[str, list[tuple[str, int, BBox]]] = {}
    for row in table.select(["doc_id", "page", "bbox", "figure_id"]).to_pylist():
        for source in opened.sources.get(row["doc_id"], []):
            name = source.rpartition("/")[2]
            placed.setdefault(row["figure_id"], []).append((name, row["page"], BBox(*row["bbox"])))
    return placed


def _quarantine_gate(workspace: Workspace, version: str) -> GateResult:
    counts = read_notes(workspace.store, version, ("assemble",))["assemble"].counts
    total = counts["documents"] + counts["quarantined"]
    share = counts["quarantined"] / total if total else 0.0
    bound = workspace.corpus.gates.max_quarantined
    message = f"{counts['quarantined']} of {total} documents are in quarantine ({share:.0%}); the ceiling is {bound:.0%}"
    return _gate("quarantine ceiling", share <= bound and counts["documents"] > 0, share, bound, message)


def _retrieval_gates(ours: dict[Mode, ModeReport], live: ModeReport | None, options: GateOptions) -> list[GateResult]:
    recall = {mode: made.recall_at_10 or 0.0 for mode, made in ours.items()}
    hybrid, single = recall["hybrid"], max(recall["bm25"], recall["dense"])
    gates = [
        _gate(
            "recall at 10",
            hybrid >= options.min_recall_at_10,
            hybrid,
            options.min_recall_at_10,
            f"hybrid finds the page of {hybrid:.0%} of the golden questions; at least {options.min_recall_at_10:.0%} is wanted",
        ),
        _gate(
            "hybrid against single modes",
            single - hybrid <= options.max_hybrid_loss,
            single - hybrid,
            options.max_hybrid_loss,
            f"recall at 10: hybrid {hybrid:.0%}, bm25 {recall['bm25']:.0%}, dense {recall['dense']:.0%}",
        ),
    ]
    if live is not None:
        difference, lower, upper = paired_bootstrap(_found(ours["hybrid"]), _found(live))
        gates.append(
            _gate(
                "recall against the live version",
                -difference <= options.max_recall_loss,
                -difference,
                options.max_recall_loss,
                f"recall at 10 changes by {difference:+.1%} (95 %: {lower:+.1%} to {upper:+.1%}) against the live version",
            )
        )
    return gates


def _found(report: ModeReport) -> list[float]:
    return [float(score.page_rank is not None) for score in report.scores]


def _gate(name: str, passed: bool, value: float | None, bound: float | None, message: str) -> GateResult:
    return GateResult(gate=name, passed=passed, value=value, bound=bound, message=message)
