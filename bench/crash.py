"""Kill the publisher at random moments: ``python -m bench.crash [--kills 30] [--seed 0] [--json]``.

A small corpus is changed and refreshed again and again, and each refresh is killed by SIGKILL with all that it started: before,
in the middle of, or after a write to the store, or when it says how far it is. Moments are drawn from all kinds that a refresh
goes through, half of them from its publication. Readers search meanwhile. Counted is what must be 0: answers that are not
whole, live versions that lack something, and what is left behind when the next refresh has published and ``prune`` has run.

With ``WEAVIATE_URL`` set (and ``WEAVIATE_GRPC_PORT``), the rows are in Weaviate.
"""

import argparse
import contextlib
import importlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from backends.stores.document_files import parsed_file, structured_file
from backends.stores.object_store import FolderStore
from bench.faults import MANUALS, change, write_corpus
from bench.table import Row, parser_of, show
from pipeline.corpus.workspace import Workspace, open_server, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.collection import open_vectors, vector_files
from pipeline.records.evidence import evidence_parts, read_placements
from pipeline.records.ledger import read_ledger
from pipeline.records.manifests import manifests, read_manifest
from pipeline.records.publication import read_pointer
from pipeline.records.row_parts import read_parts
from pipeline.run import refresh
from pipeline.upkeep.prune import prune
from schemas.errors import InsetError
from schemas.ids import collection_name, document_file, figure_file
from schemas.retrieval import Query
from schemas.versions import Status

_QUESTION = "How is the bearing fitted?"
_ALL_ROWS = 10_000
_READERS = 2
_PAUSE_S = 0.5


@dataclass
class Outcome:
    """What came of the kills; everything but ``killed_at`` and ``answers`` should be empty."""

    killed_at: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    wrong_answers: list[str] = field(default_factory=list)
    broken_versions: list[str] = field(default_factory=list)
    unpublished: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)


def main() -> None:
    """Kill, look, and print what was found."""
    parser = parser_of("crash", __doc__)
    parser.add_argument("--kills", type=int, default=30, help="refreshes to kill")
    parser.add_argument("--seed", type=int, default=0, help="what the moments are drawn by")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--fork-server", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fork_server:
        _serve()
        return
    with tempfile.TemporaryDirectory() as folder:
        outcome = crash(Path(folder), kills=arguments.kills, seed=arguments.seed, log=sys.stderr.write)
    show(f"the publisher killed {len(outcome.killed_at)} times", list(_rows(outcome)))
    if any((outcome.wrong_answers, outcome.broken_versions, outcome.unpublished, outcome.orphans)):
        sys.exit(1)


def _rows(outcome: Outcome) -> Iterator[Row]:
    yield Row("kills", "", len(outcome.killed_at))
    yield Row("versions that readers saw", "", len(outcome.answers))
    yield Row("answers read", "", outcome.answers.total())
    yield Row("answers that are not whole", "", len(outcome.wrong_answers), goal="0")
    yield Row("live versions that lack something", "", len(outcome.broken_versions), goal="0")
    yield Row("next refresh does not publish", "", len(outcome.unpublished), goal="0")
    yield Row("left behind after prune", "", len(outcome.orphans), goal="0")


def crash(folder: Path, *, kills: int, seed: int, log: Callable[[str], object] = lambda _line: None) -> Outcome:
    """Kill refreshes of a small corpus at random moments and look at what is there afterwards.

    Args:
        folder: One for the corpus and its store, without a corpus yet.
        kills: Refreshes to kill.
        seed: What the moments are drawn by.
        log: Called with a line a kill.
    """
    pick, outcome = random.Random(seed), Outcome()
    index = "lancedb"
    if url := os.environ.get("WEAVIATE_URL"):
        index = f"weaviate, url: '{url}', grpc_port: {os.environ.get('WEAVIATE_GRPC_PORT', '50051')}"
    file, changes = write_corpus(folder, index=index), itertools.count(MANUALS)
    workspace = open_workspace(str(file))
    refresh(workspace)
    change(folder, next(changes))
    with _Readers(workspace, outcome), _ForkServer(file) as server:
        status, moments = server.refresh("", 0)
        if status:
            raise SystemExit(f"an undisturbed refresh ended with {status}")
        draws = _draws(moments, pick)
        while len(outcome.killed_at) < kills:
            change(folder, next(changes))
            moment, occurrence = next(draws)
            status, _ = server.refresh(moment, occurrence)
            reached = status == -signal.SIGKILL
            if not reached and status != 0:
                outcome.unpublished.append(f"the refresh that was to be killed {moment} ended with {status}")
            log(f"{len(outcome.killed_at) + reached:3} {moment} ({occurrence}){'' if reached else ': not reached'}\n")
            outcome.killed_at += [moment] * reached
            outcome.broken_versions += [f"after {moment}: {lacking}" for lacking in _lacking(workspace)]
        change(folder, next(changes))
        try:
            if not refresh(workspace).published:
                outcome.unpublished.append("gates refused the last refresh")
        except InsetError as error:
            outcome.unpublished.append(error.message)
        prune(workspace, dry_run=False)
    outcome.orphans += _orphans(workspace)
    outcome.broken_versions += _lacking(workspace)
    for line in (*outcome.wrong_answers, *outcome.broken_versions, *outcome.unpublished, *outcome.orphans):
        log(f"{line}\n")
    return outcome


# ---- kills ----


def _draws(moments: Counter[str], pick: random.Random) -> Iterator[tuple[str, int]]:
    """Yield kinds of moments in random order, again and again, with the one of the kind that is meant.

    Every second one is of the publication itself: it is short, and where a version could become half a one.
    """
    late = [moment for moment in sorted(moments) if any(part in moment for part in _PUBLICATION)]
    for turn in itertools.count():
        kinds = late if turn % 2 else sorted(moments.keys() - set(late))
        moment = pick.choice(kinds)
        yield moment, pick.randint(1, moments[moment])


_PUBLICATION = ("publish", "diff.json", "release_note.md", "files.parquet", "manifest.json", "LIVE", "LEASE")


class _ForkServer:
    """A process that has imported what a refresh needs, and forks one that refreshes: imports would take most of the time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> "_ForkServer":
        command = [sys.executable, "-m", "bench.crash", "--fork-server"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def refresh(self, moment: str, occurrence: int) -> tuple[int, Counter[str]]:
        """Refresh, killed at a moment; return the exit status, and if it wasn't killed, what moments there were."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(self._file), moment, occurrence]) + "\n")
        self._process.stdin.flush()
        status, seen = json.loads(self._process.stdout.readline())
        return status, Counter(seen)


def _serve() -> None:
    """Refresh in a fork, in a process group of its own, for each line of the standard input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in ("great_expectations", "sentence_transformers"):
            importlib.import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setsid()
            file, moment, occurrence = json.loads(line)
            seen = refresh_until(file, moment, occurrence)
            print(json.dumps([0, seen]), flush=True)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            print(json.dumps([status, {}]), flush=True)


def refresh_until(file: str, moment: str, occurrence: int) -> Counter[str]:
    """Refresh a corpus and die at a moment; if it doesn't come, return all that did.

    Args:
        file: The corpus file.
        moment: A name, such as ``after swap LIVE``.
        occurrence: Which of that name, from 1.
    """
    seen: Counter[str] = Counter()

    def pass_through(name: str) -> None:
        seen[name] += 1
        if name == moment and seen[name] == occurrence:
            os.killpg(0, signal.SIGKILL)

    workspace = open_workspace(file)
    watched = replace(workspace, store=_WatchedStore(Path(workspace.store.root), pass_through))
    refresh(watched, report=lambda step, done, total, _spent="": pass_through(f"{step}, {'not ' * (done < total)}done"))
    return seen


class _WatchedStore(FolderStore):
    """A store that says when it is about to write, in the middle of it, and done."""

    def __init__(self, root: Path, pass_through: Callable[[str], None]) -> None:
        super().__init__(root)
        self._pass = pass_through

    def replace(self, name: str, data: bytes) -> None:
        with self._watched(f"write {_kind(name)}"):
            super().replace(name, data)

    def delete(self, name: str) -> None:
        with self._watched(f"delete {_kind(name)}"):
            super().delete(name)

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        with self._watched(f"swap {name}"):
            return super().swap(name, data, expected)

    @contextlib.contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        self._pass(f"before {what}")
        rename = Path.replace

        def half_way(path: Path, target: Path) -> Path:
            self._pass(f"amid {what}")
            return rename(path, target)

        Path.replace = half_way  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            Path.replace = rename  # type: ignore[method-assign]
        self._pass(f"after {what}")


def _kind(name: str) -> str:
    """Name what an object is, whichever version or document it belongs to."""
    first, *rest = name.split("/")
    if first != "versions":
        return first
    return "/".join(rest[1:3]) if rest[1] == "stages" else rest[1]


# ---- what is there afterwards ----


class _Readers:
    """Threads that ask until the block ends."""

    def __init__(self, workspace: Workspace, outcome: Outcome) -> None:
        self._workspace, self._outcome = workspace, outcome
        self._published = PublishedCorpus(workspace)
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(_READERS)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()
        self._published.close()

    def _read(self) -> None:
        while not self._done.wait(_PAUSE_S):
            try:
                self._ask()
            except Exception as error:  # noqa: BLE001 (whatever a reader sees is a finding)
                self._outcome.wrong_answers.append(f"a reader saw {type(error).__name__}: {error}")

    def _ask(self) -> None:
        """Ask for every row; all must be there, and of one version."""
        result = self._published.search(Query(_QUESTION, preset="dense", k=_ALL_ROWS))
        manifest = read_manifest(self._workspace.store, result.version)
        rows = manifest.counts.rows if manifest else -1
        documents = {row.doc_id for row in read_ledger(self._workspace.store, result.version)}
        if len(result.hits) != rows or {hit.doc_id for hit in result.hits} != documents:
            self._outcome.wrong_answers.append(f"{len(result.hits)} of {rows} rows of {result.version}")
        with self._published.opened(result.version) as opened:
            for figure in {figure for hit in result.hits for figure in hit.figure_refs}:
                opened.figure(figure)
        self._outcome.answers[result.version] += 1


def _lacking(workspace: Workspace) -> Iterator[str]:
    """Yield what the live version needs and isn't there."""
    store, live = workspace.store, read_pointer(workspace.store)
    manifest = read_manifest(store, live.version) if live else None
    if live is None or manifest is None:
        yield "no finished version is live"
        return
    if workspace.index(live.version).count() != manifest.counts.rows:
        yield f"{live.version} lacks rows"
    yield from (f"{live.version} lacks {name}" for name in _objects_of(workspace, live.version) if not store.exists(name))


def _objects_of(workspace: Workspace, version: str) -> set[str]:
    store = workspace.store
    placements = read_placements(store, version).column("figure_id").to_pylist()
    documents = {row.doc_id for row in read_ledger(store, version) if row.status is Status.INDEXED}
    tagged = json.loads(store.get(f"versions/{version}/tagged.json"))
    manifest = read_manifest(store, version)
    parts = read_parts(store, version)
    return {
        *(parts.sizes() if parts else ()),
        *(figure_file(figure) for figure in placements if figure is not None),
        *(document_file(doc_id) for doc_id in documents),
        *(parsed_file(doc_id, workspace.keys.parse) for doc_id in documents),
        *(structured_file(doc_id, workspace.keys.structured) for doc_id in documents),
        *tagged.values(),
        f"quarantine/{manifest.run_id if manifest else ''}.parquet",
    }


_KEPT = {"LIVE", "LEASE", "LIVE.lock", "LEASE.lock", "audit", "last_refresh.json", "vectors"}
"""What a store holds beside its versions and their objects."""


def _orphans(workspace: Workspace) -> Iterator[str]:
    """Yield what is there, and no finished version needs: looked for among the files themselves, apart from ``prune``."""
    root, store = Path(workspace.store.root), workspace.store
    versions = {manifest.version for manifest in manifests(store)}
    needed = {name for version in versions for name in _objects_of(workspace, version)}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        first, _, rest = name.partition("/")
        if path.is_dir():
            kept = any(path.iterdir())
        elif path.name.startswith("."):
            kept = False
        elif first == "versions":
            kept = rest.partition("/")[0] in versions
        else:
            kept = name in needed or first in _KEPT
        if not kept:
            yield f"orphan {name}"
    spaces = open_vectors(store, workspace.spaces)
    needed_vectors = {name for version in versions for name in vector_files(evidence_parts(store, version), spaces)}
    yield from (f"orphan vector {name}" for name in sorted({*store.names("vectors")} - needed_vectors))
    if workspace.corpus.index.engine == "weaviate":
        kept_names = {collection_name(workspace.corpus.name, version) for version in versions}
        held = open_server(workspace.corpus.index).client().collections.list_all()
        yield from (f"orphan collection {name}" for name in held if name.startswith("Faults_") and name not in kept_names)


if __name__ == "__main__":
    main()
