"""Diagnose the installation and corpora, and say how to repair them."""

import contextlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from backends.conversion import office, printing
from backends.models.endpoint_calls import problem_of_server
from backends.stores.objects import unless_damaged
from pipeline.corpus.answers import check_answers
from pipeline.corpus.corpora import corpora_folder, corpus_files
from pipeline.corpus.languages import unknown_languages
from pipeline.corpus.presets import check_default_preset
from pipeline.corpus.schedules import check_notifiers, corpus_schedule
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.webhooks import read_webhooks
from pipeline.records.collection import holds
from pipeline.records.converted import without_libreoffice
from pipeline.records.lease import alone
from pipeline.records.ledger import read_forgotten
from pipeline.records.manifests import manifests, read_manifest
from pipeline.records.problems import problems_of, read_standing
from pipeline.records.publication import read_pointer, readable_pointer
from pipeline.records.retention import update_alias
from pipeline.records.row_parts import read_parts
from pipeline.records.states import State
from pipeline.upkeep.discard import discard, find_damage
from schemas.errors import DamagedError, InsetError, UserError
from schemas.reports import Diagnosis, Finding
from schemas.stages import Report, silent
from schemas.versions import Manifest
from workers.isolation import missing_isolation

_EXTRAS = {
    "ray": ("ray", "captions and vectors are made by Ray actors"),
    "models": ("onnxruntime", "it runs the packaged models of texts, words and layout"),
    "serve": ("fastapi", "inset serve needs it"),
    "torch": ("sentence_transformers", "corpora that name a model of sentence-transformers need it"),
    "weaviate": ("weaviate", "corpora with index.engine weaviate need it"),
    "airflow": ("airflow", "scheduled refreshes run on it"),
}
_OPTIONAL = {"weaviate", "airflow", "torch"}
_MOST_NAMED = 20
"""Most damaged objects that are named."""


def diagnose(corpora: Sequence[str], *, deep: bool = False, report: Report = silent) -> Diagnosis:
    """Check the installation and each corpus.

    [] means all corpora in the corpora folder. With ``deep``, every object that a kept version needs is read, and what is
    damaged is deleted, for the next refresh to make again.
    """
    findings = [*_installation(), *_corpora(corpora, deep=deep, report=report)]
    return Diagnosis(ok=all(finding.ok for finding in findings), findings=findings)


def _installation() -> Iterator[Finding]:
    for extra, (module, purpose) in _EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            remedy = f"pip install -e '.[{extra}]', or make {'setup' if extra == 'torch' else 'install'}"
            finding = _broken(f"not installed; {purpose}", remedy, f"extra {extra}")
            yield finding.model_copy(update={"ok": extra in _OPTIONAL})
    if not office.release():
        remedy = "install it, such as Debian's libreoffice-writer-nogui, -calc-nogui and -impress-nogui"
        yield _warning("not installed; office files go to quarantine", remedy, "LibreOffice")
    if not printing.is_installed():
        remedy = "install it, such as Debian's libpangoft2-1.0-0 and fonts-dejavu"
        yield _warning("not installed; HTML, Markdown and text go to quarantine", remedy, "Pango")
    if missing := missing_isolation():
        remedy = "use Linux 5.13 or newer, and let containers call seccomp and Landlock"
        yield _warning(f"they keep {'; '.join(missing)}", remedy, "parsers of PDFs")


def _corpora(corpora: Sequence[str], *, deep: bool, report: Report) -> Iterator[Finding]:
    corpus_names = list(corpora) or [str(path) for path in corpus_files()]
    if not corpus_names:
        yield _broken(f"no corpus file in {corpora_folder()}", "inset init NAME", "corpora")
    for name in corpus_names:
        try:
            workspace = open_workspace(name)
        except InsetError as error:
            yield _broken(error.message, "correct the corpus file", f"corpus {name}")
            continue
        messages, is_intact = set(), True
        for finding in (*_corpus(workspace), *_problems(workspace), *_objects(workspace, deep=deep, report=report)):
            if finding.ok or finding.message not in messages:  # several checks need the pointer
                yield finding
            messages.add(finding.message)
            is_intact &= finding.ok and not finding.warning
        if is_intact:
            yield _intact(
                f"nothing is wrong{'' if deep else '; to read every object: --deep'}", f"corpus {workspace.corpus.name}"
            )


def _corpus(workspace: Workspace) -> Iterator[Finding]:
    checks: dict[str, Callable[[Workspace], object]] = {
        "source": _source,
        "store": _store,
        "notifiers": lambda workspace: check_notifiers(workspace.corpus.operations, workspace.file),
        "passwords": Workspace.passwords,
        "preset": check_default_preset,
        "models": _models,
        "answers": _answers,
        "quarantine": _quarantine,
        "forgotten": _forgotten,
        "languages": _languages,
        "index": _index,
        "earlier versions": _earlier_versions,
        "alias": _alias,
        "webhooks": _webhooks,
    }
    for name, check in checks.items():
        subject = f"corpus {workspace.corpus.name}"
        try:
            finding = check(workspace)
            if isinstance(finding, Finding):
                yield finding.model_copy(update={"subject": f"{subject} {name}"})
        except DamagedError as damage:
            problem, _, remedy = damage.message.partition("; ")
            yield _broken(problem, remedy, subject)
        except InsetError as error:
            yield _broken(error.message, f"correct {workspace.file}, or what it names", subject)


def _intact(message: str, subject: str = "") -> Finding:
    return Finding(subject=subject, ok=True, message=message)


def _warning(message: str, remedy: str, subject: str = "") -> Finding:
    return Finding(subject=subject, ok=True, warning=True, message=message, remedy=remedy)


def _broken(message: str, remedy: str, subject: str = "") -> Finding:
    return Finding(subject=subject, ok=False, message=message, remedy=remedy)


def _source(workspace: Workspace) -> Finding:
    files = workspace.source().files()
    if lacking := without_libreoffice(files):
        message = f"{len(files)} documents in {workspace.corpus.source_address}, {lacking} of which need LibreOffice"
        return _warning(message, "install LibreOffice, or they go to quarantine")
    message = f"{len(files)} documents in {workspace.corpus.source_address}"
    return _intact(message) if files else _broken(message, f"put documents there, or correct 'source' in {workspace.file}")


def _store(workspace: Workspace) -> Finding | None:
    root = workspace.store.root
    if root.startswith("s3://"):
        workspace.store.exists("LIVE")
        return None
    folder = next(folder for folder in (Path(root), *Path(root).parents) if folder.exists())
    return None if os.access(folder, os.W_OK) else _broken(f"{folder} can't be written to", "choose another 'store'")


def _webhooks(workspace: Workspace) -> Finding | None:
    silent = [webhook for webhook in read_webhooks(workspace.store) if webhook.problem]
    names = ", ".join(
        f"{webhook.id} of {webhook.owner or 'nobody'} ({webhook.url}): {webhook.problem}" for webhook in silent
    )
    remedy = "correct the address; what isn't told for three days is given up, and its key deletes the webhook"
    return _warning(f"{len(silent)} addresses don't answer: {names}", remedy) if silent else None


def _models(workspace: Workspace) -> Finding | None:
    problems = [
        f"{name}: {problem}"
        for name, entry in workspace.corpus.models.items()
        if entry.endpoint is not None
        and (problem := problem_of_server(f"models.{name}", [entry.model, entry.revision or entry.model], entry.endpoint))
    ]
    remedy = f"start it, or correct model, revision and endpoint in {workspace.file}; answers and captions of another "
    return _warning("; ".join(problems), f"{remedy}name are taken with a note, vectors are refused") if problems else None


def _answers(workspace: Workspace) -> Finding:
    preset = check_answers(workspace)
    return _intact(f"{preset.name} by default, {f'written by {preset.model}' if preset.model else 'without a model'}")


_REMEDIES = {
    State.REFUSED: 'inset publish {name} {newest} --override "REASON", if it is to go live all the same',
    State.HELD: "inset publish {name} VERSION",
}
_BROKEN = (State.BROKEN, State.DAMAGED, State.FULL)
"""States that are faults; the others want a decision, or time."""


def _problems(workspace: Workspace) -> Iterator[Finding]:
    """Yield what ``inset status`` says of a corpus, but that nothing is published, which isn't wrong."""
    now, schedule = datetime.now(UTC), corpus_schedule(workspace.file, notifiers=False)
    try:
        standing = read_standing(workspace.store, now)
    except InsetError:  # as other checks say
        return
    for state, message in problems_of(schedule, workspace.store, standing, now):
        if state is State.EMPTY:
            continue
        problem, _, remedy = message.partition("; ")
        if state in _REMEDIES:
            newest = standing.newest.version if standing.newest is not None else "VERSION"
            problem, remedy = message, _REMEDIES[state].format(name=schedule.name, newest=newest)
        finding = _broken(problem, remedy) if state in _BROKEN else _warning(problem, remedy)
        yield finding.model_copy(update={"subject": f"corpus {schedule.name} {state}"})


def _live_manifest(workspace: Workspace) -> Manifest | None:
    live = read_pointer(workspace.store)
    return read_manifest(workspace.store, live.version) if live else None


def _quarantine(workspace: Workspace) -> Finding | None:
    name, manifest = workspace.corpus.name, _live_manifest(workspace)
    if manifest is None or not manifest.counts.quarantined:
        return None
    message = f"{manifest.counts.quarantined} documents of {manifest.version} are in quarantine"
    return _warning(message, f"to see why: inset quarantine {name}; to try them again: inset quarantine {name} --replay")


def _forgotten(workspace: Workspace) -> Finding | None:
    name, forgotten = workspace.corpus.name, read_forgotten(workspace.store)
    if forgotten.pending:
        message = f"the deletion of {len(forgotten.pending)} forgotten documents isn't finished"
        return _broken(message, f"inset refresh {name}, which finishes it")
    if not forgotten.documents:
        return None
    return _intact(f"{len(forgotten.documents)} documents are forgotten, and aren't taken in again")


def _languages(workspace: Workspace) -> Finding | None:
    manifest = _live_manifest(workspace)
    advice = unknown_languages(workspace, manifest.counts) if manifest is not None else None
    # Always ok: an installation without a network has no other model.
    return _intact(advice) if advice else None


def _index(workspace: Workspace) -> Finding | None:
    workspace.reach_engine()
    live, manifest = read_pointer(workspace.store), _live_manifest(workspace)
    if live is None or (manifest is not None and holds(workspace, manifest)):
        return None
    rows, name = manifest.counts.rows if manifest else 0, workspace.corpus.name
    remedy = f"inset refresh {name}, which builds it again; until then: inset rollback {name}"
    return _broken(f"{live.version} is live, and the engine doesn't hold its {rows} rows", remedy)


def _earlier_versions(workspace: Workspace) -> Finding | None:
    live, finished = readable_pointer(workspace.store), manifests(workspace.store)
    earlier = [manifest for manifest in finished if live is None or manifest.version != live.version]
    lost_versions = {
        manifest.version
        for manifest in earlier
        if not workspace.is_taken(manifest.version) and not holds(workspace, manifest)
    }
    lost_versions.update({*workspace.corpus.retention.pinned}.difference(manifest.version for manifest in finished))
    if not lost_versions:
        return None
    message = f"the rows of {', '.join(sorted(lost_versions))} are gone, so that they can't be searched or gone back to"
    return _warning(message, f"go back to others only, and correct retention.pinned in {workspace.file} if it names them")


def _alias(workspace: Workspace) -> Finding | None:
    return _intact("it was behind the live version and was repaired") if update_alias(workspace) else None


def _objects(workspace: Workspace, *, deep: bool, report: Report) -> Iterator[Finding]:
    """Yield damaged objects of the finished versions, and how each is made again; with ``deep`` they are deleted for that."""
    name = workspace.corpus.name
    subject = f"corpus {name} objects"
    try:
        damaged = find_damage(workspace, deep=deep, report=report)
        remedies = [_remedy(workspace, damage) for damage in damaged]
        if deep and damaged:
            # A held corpus or a store that can't be written to keeps them; a refresh that is running raises.
            with contextlib.suppress(UserError), alone(workspace.store, "doctor"):
                discard(workspace, damaged)
    except InsetError as error:
        yield _broken(error.message, f"then run: inset doctor {name}", subject)
        return
    for damage, remedy in list(zip(damaged.values(), remedies, strict=True))[:_MOST_NAMED]:
        yield _broken(damage.message.partition("; ")[0], remedy, subject)
    if len(damaged) > _MOST_NAMED:
        message = f"{len(damaged) - _MOST_NAMED} more are damaged"
        yield _broken(message, f"inset refresh {name}, then inset doctor {name}", subject)


def _remedy(workspace: Workspace, damaged: str) -> str:
    """Return what the next refresh does about a damaged object."""
    refresh, pointer = f"inset refresh {workspace.corpus.name}", readable_pointer(workspace.store)
    version = damaged.split("/")[1] if damaged.startswith("versions/") else None
    if pointer is not None and pointer.held and version == pointer.version:
        return f"inset publish {workspace.corpus.name} VERSION, since the corpus is held; then {refresh} makes it again"
    if damaged.startswith("rows/") and pointer is not None:
        parts = unless_damaged(lambda: read_parts(workspace.store, pointer.version))
        if parts is None or damaged not in parts.sizes():
            return f"{refresh} removes the earlier versions that need it, which can't be restored"
    if version in workspace.corpus.retention.pinned and (pointer is None or version != pointer.version):
        return f"{version} is pinned and can't be made again: copy it from elsewhere, or remove it from 'pinned'"
    if version is not None and pointer is not None and version != pointer.version:
        return f"{refresh} removes {version}, which can't be restored"
    return f"{refresh} makes it again"
