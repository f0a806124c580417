"""Break a store and look: ``python -m bench.faults [--rounds 200] [--s3 50] [--weaviate 20] [--seed 0] [--json]``.

First a table: each kind of object × each damage, and every command and route in front of it. Each works, or says in one line
which object it is and what to do; one refresh later the store is healthy. Then rounds drawn by a seed: a file of the source
changes or goes for a moment, an object is cut, flipped or lost, a refresh is killed, the disk is full or read-only, the clock
steps, a folder can't be read; with S3 the network breaks replies, with Weaviate the server stops. Counted is what must be 0.
"""

import argparse
import contextlib
import errno
import io
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from backends.stores.object_store import FolderStore
from backends.stores.s3_store import S3Store, s3_client
from bench.table import Row, parser_of, show
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.evidence import figures_of, placement_parts
from pipeline.records.lease import LEASE
from pipeline.records.ledger import read_ledger
from pipeline.records.manifests import read_manifest
from pipeline.records.publication import read_pointer
from pipeline.records.row_parts import read_parts
from pipeline.run import refresh
from pipeline.upkeep.doctor import diagnose
from schemas.errors import InsetError
from schemas.parquet import from_parquet
from schemas.retrieval import Query
from schemas.versions import Lease, Status
from tests.synthetic import PRESETS, synthesize

MANUALS = 3
_QUESTION = "How is the bearing fitted?"

Damage = Callable[[bytes], bytes | None]

DAMAGES: dict[str, Damage] = {
    "missing": lambda _data: None,
    "empty": lambda _data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[: len(data) // 3] + bytes([data[len(data) // 3] ^ 0x10]) + data[len(data) // 3 + 1 :],
}

KINDS = (
    "LIVE",
    "LEASE",
    "manifest.json",
    "plan.json",
    "index.json",
    "tagged.json",
    "stages/assemble.json",
    "stages/check.json",
    "diff.json",
    "quality/",
    "ledger.parquet",
    "evidence/",
    "placements/",
    "parts.json",
    "documents.parquet",
    "files.parquet",
    "quarantine/",
    "recognised/",
    "vectors/",
    "documents/",
    "figures/",
    "tagged/",
    "parsed/",
    "structured/",
    "lance/data",
    "lance/_indices",
    "lance/_versions",
    "lance/_transactions",
    "previous manifest.json",
    "previous evidence/",
)
"""Kinds of objects: of the live version, but for the last two."""

_SHARED = ("quarantine/", "recognised/", "vectors/", "documents/", "figures/", "tagged/")


@dataclass
class Outcome:
    """What was found; everything but the counts should be empty."""

    cells: int = 0
    rounds: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    tracebacks: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    unhealthy: list[str] = field(default_factory=list)
    wrong_answers: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Return all that should not be."""
        return [*self.tracebacks, *self.unnamed, *self.unseen, *self.unhealthy, *self.wrong_answers, *self.lost]


def main() -> None:
    """Break, look, and print what was found."""
    parser = parser_of("faults", __doc__)
    parser.add_argument("--rounds", type=int, default=200, help="rounds on a folder")
    parser.add_argument("--s3", type=int, default=50, help="rounds on S3, through a network that breaks replies")
    parser.add_argument(
        "--weaviate", type=int, default=20, help="rounds with a Weaviate server; none if there is no binary"
    )
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn by")
    parser.add_argument("--no-table", action="store_true", help="rounds only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    faults = 0
    for title, outcome in _runs(arguments):
        show(title, list(_rows(outcome)))
        for line in outcome.faults():
            sys.stderr.write(f"{line}\n")
        faults += len(outcome.faults())
    sys.exit(1 if faults else 0)


def _runs(arguments: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    def log(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    with tempfile.TemporaryDirectory() as folder:
        if not arguments.no_table:
            yield "damage, by the table", table(Path(folder) / "table", log=log)
        if arguments.rounds:
            yield (
                f"{arguments.rounds} rounds on a folder",
                rounds(Path(folder) / "folder", arguments.rounds, arguments.seed, log=log),
            )
        if arguments.s3:
            yield f"{arguments.s3} rounds on S3", s3_rounds(Path(folder) / "s3", arguments.s3, arguments.seed, log=log)
        if arguments.weaviate and shutil.which("weaviate"):
            yield (
                f"{arguments.weaviate} rounds with Weaviate",
                weaviate_rounds(Path(folder) / "weaviate", arguments.weaviate, arguments.seed, log=log),
            )


def _rows(outcome: Outcome) -> Iterator[Row]:
    if outcome.cells:
        yield Row("commands and routes in front of damage", "", outcome.cells)
    for kind, count in sorted(outcome.rounds.items()):
        yield Row(f"rounds: {kind}", "", count)
    yield Row("answers read", "", outcome.answers)
    yield Row("tracebacks, and replies of status 500", "", len(outcome.tracebacks), goal="0")
    yield Row("errors that don't name the object", "", len(outcome.unnamed), goal="0")
    yield Row("damage that doctor --deep doesn't see", "", len(outcome.unseen), goal="0")
    yield Row("stores not healthy after one refresh", "", len(outcome.unhealthy), goal="0")
    yield Row("answers that mix versions, or lack rows", "", len(outcome.wrong_answers), goal="0")
    yield Row("documents lost without a word", "", len(outcome.lost), goal="0")


# ---- the corpus ----


def write_corpus(folder: Path, *, store: str = "store", index: str = "lancedb", ocr: str = "none") -> Path:
    """Write a small corpus, and return its file."""
    (folder / "pdfs").mkdir(parents=True)
    for number in range(MANUALS):
        change(folder, number)
    file = folder / "faults.yaml"
    file.write_text(
        f"name: faults\nsource: pdfs\nstore: {store}\ncaptions: {{ocr: {ocr}}}\nparse: {{workers: 1}}\n"
        f"tags: {{pdf: true}}\nretention: {{versions: 2}}\nindex: {{engine: {index}}}\n"
    )
    return file


def change(folder: Path, seed: int) -> None:
    """Write one of the manuals again."""
    name = f"manual-{seed % MANUALS}"
    (folder / "pdfs" / f"{name}.pdf").write_bytes(synthesize(name, seed=seed, pages=2, options=PRESETS["easy"]).pdf)


class Objects:
    """The bytes of a store's objects, read and written without checks."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def find(self, kind: str) -> str:
        """Return an object of a kind."""
        pointer = read_pointer(self._store)
        assert pointer is not None
        if kind in ("LIVE", "LEASE"):
            return kind
        version, wanted = pointer.version, kind
        if kind.startswith("previous "):
            version, wanted = str(pointer.previous), kind.removeprefix("previous ")
        if wanted in ("evidence/", "placements/"):
            parts = read_parts(self._store, version)
            return parts.parts[0].evidence if wanted == "evidence/" else parts.parts[0].placements
        if wanted.startswith("lance/"):
            place = f"/{wanted.removeprefix('lance/')}/"
            return max(name for name in self.names(f"versions/{version}/lance") if place in name)
        if wanted in _SHARED:
            return self._of_version(version, wanted)
        if wanted in ("parsed/", "structured/"):
            doc_ids = [row.doc_id for row in read_ledger(self._store, version)]
            return min(name for name in self.names(wanted.rstrip("/")) if name.split("/")[1] in doc_ids)
        return next(name for name in self.names(f"versions/{version}") if name.startswith(f"versions/{version}/{wanted}"))

    def names(self, prefix: str) -> list[str]:
        """Return the names of the objects below a folder."""
        found: list[str] = self._store.names(prefix)
        return found

    def _of_version(self, version: str, wanted: str) -> str:
        if wanted in ("recognised/", "vectors/"):
            return max(self.names(wanted))
        ids = {row.doc_id for row in read_ledger(self._store, version)}
        ids |= {figure for part in placement_parts(self._store, version) for figure in figures_of(part)}
        manifest = read_manifest(self._store, version)
        ids |= {manifest.run_id} if manifest else set()
        return next(name for name in self.names(wanted) if any(one in name for one in ids))

    def break_(self, name: str, damage: Damage) -> bool:
        """Do damage to an object; return whether it is a table that reads as before, since no reader needs the changed bytes."""
        before = self._read(name)
        made = damage(before)
        if made is None:
            self._store.delete(name)
            return False
        self._write(name, made)
        try:
            return name.endswith(".parquet") and bool(from_parquet(made).equals(from_parquet(before)))
        except ValueError:
            return False

    def _read(self, name: str) -> bytes:
        data: bytes = self._store._read(name)
        return data

    def _write(self, name: str, data: bytes) -> None:
        if isinstance(self._store, FolderStore):
            (Path(self._store.root) / name).write_bytes(data)
        else:
            assert isinstance(self._store, S3Store)
            s3_client().put_object(Bucket=self._store.bucket, Key=self._store.key(name), Body=data)


# ---- commands and routes ----


@dataclass(frozen=True)
class Reply:
    """What a command or route came to: its exit code or status, and what it prints."""

    request: str
    code: int
    output: str


def commands(file: Path) -> list[list[str]]:
    """Return every command that may stand in front of a damaged store."""
    name = str(file)
    return [
        ["plan", name],
        ["versions", name],
        ["quarantine", name],
        ["search", name, _QUESTION],
        ["ask", name, _QUESTION],
        ["doctor", name],
        ["prune", name],
        ["diff", name, "PREVIOUS", "LIVE"],
        ["export", name, "--out", str(file.parent / "exported.parquet")],
    ]


def changing_commands(file: Path) -> list[list[str]]:
    """Return every command that changes a store, to be run on a copy of it."""
    name = str(file)
    return [
        ["quarantine", name, "--replay"],
        ["prune", name, "--yes"],
        ["rollback", name],
        ["publish", name, "LIVE"],
    ]


def run_command(arguments: Sequence[str]) -> Reply:
    """Run a command in this process; what escapes it is a traceback."""
    from cli.main import main as inset

    output = io.StringIO()
    code = 0
    with (
        mock.patch.object(sys, "argv", ["inset", *arguments]),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        try:
            inset()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:  # noqa: BLE001 (whatever escapes is a finding)
            return Reply(f"inset {arguments[0]}", 70, traceback.format_exc())
    return Reply(f"inset {arguments[0]}", code, output.getvalue())


def ask_routes(file: Path, names: dict[str, str], *, draw: bool) -> Iterator[Reply]:
    """Ask every route of the service for what a whole store would give; ``draw`` is whether to draw a page too."""
    from fastapi.testclient import TestClient

    from query_service.serve import ServiceOptions

    base = "/v1/corpora/faults"
    try:
        app = ServiceOptions(corpora=[str(file)]).open()
    except InsetError as error:
        yield Reply("serve", 1, f"inset: {error.message}")
        return
    with TestClient(app, raise_server_exceptions=False, base_url="http://localhost") as client:
        while "being loaded" in client.get("/readyz").text:
            pass
        for path in ("/readyz", "/v1/corpora", base, f"{base}/versions"):
            yield _reply("GET", path, client.get(path))
        yield _reply("POST", f"{base}/search", client.post(f"{base}/search", json={"query": _QUESTION}))
        yield _reply("POST", f"{base}/answer", client.post(f"{base}/answer", json={"question": _QUESTION}))
        for kind, path in (
            ("figure", f"{base}/figures/{names['figure']}"),
            ("document", f"{base}/documents/{names['document']}.pdf"),
            ("tagged", f"{base}/documents/{names['document']}/tagged.pdf"),
            *([("page", f"{base}/documents/{names['document']}/pages/1.png")] if draw else []),
        ):
            yield _reply("GET", kind, client.get(path))


def _reply(method: str, path: str, response: Any) -> Reply:
    text = response.text if response.status_code >= 400 else ""
    return Reply(f"{method} {path}", response.status_code, text)


def _is_a_crash(reply: Reply) -> bool:
    return reply.code in (70, 500) or "Traceback" in reply.output


def _names_something(reply: Reply) -> bool:
    """Return whether a reply that isn't what was asked for says in one line where the fault is and what helps."""
    return reply.code in (0, 200) or any(part in reply.output for part in ("/faults", "inset ", "corpus faults"))


# ---- the table ----


def table(
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    damages: Sequence[str] = tuple(DAMAGES),
    log: Callable[[str], object] = lambda _line: None,
) -> Outcome:
    """Damage each kind of object in each way, run all commands and requests, refresh once, and check that it is repaired.

    Args:
        folder: One that isn't there yet, for the corpus and its store.
        kinds: Which kinds of objects.
        damages: Which damages.
        log: Called with a line a damage.
    """
    outcome = Outcome()
    file = write_corpus(folder, ocr="rapidocr")
    workspace = open_workspace(str(file))
    refresh(workspace)
    change(folder, MANUALS)
    refresh(workspace)
    whole = folder / "whole"
    shutil.copytree(folder / "store", whole)
    names = _served(workspace)
    for kind, damage in itertools.product(kinds, damages):
        shutil.rmtree(folder / "store")
        shutil.copytree(whole, folder / "store")
        objects = Objects(workspace.store)
        name = objects.find(kind)
        reads_alike = objects.break_(name, DAMAGES[damage])
        before = len(outcome.faults())
        _look(workspace, file, names, f"{kind} {damage}", outcome)
        seen = run_command(["doctor", str(file), "--deep"])
        if seen.code == 0 and not reads_alike and not _is_harmless(kind, damage):
            outcome.unseen.append(f"{kind} {damage}: doctor --deep finds nothing")
        _heal(workspace, file, f"{kind} {damage}", outcome)
        log(f"{kind} {damage}: {len(outcome.faults()) - before} faults")
    for kind in [*(kind for kind in kinds if not kind.startswith("lance/")), *_CONDITIONS]:
        shutil.rmtree(folder / "store")
        shutil.copytree(whole, folder / "store")
        before = len(outcome.faults())
        what = kind if kind in _CONDITIONS else f"{kind} unreadable"
        with _unreadable(workspace, kind) if kind not in _CONDITIONS else _CONDITIONS[kind](workspace):
            _look(workspace, file, names, what, outcome)
        _heal(workspace, file, what, outcome)
        log(f"{what}: {len(outcome.faults()) - before} faults")
    return outcome


@contextlib.contextmanager
def _unreadable(workspace: Workspace, kind: str) -> Iterator[None]:
    """Refuse reads of an existing object; modes don't stop a superuser."""
    path = Path(workspace.store.root) / Objects(workspace.store).find(kind)
    read, opened = Path.read_bytes, Path.open

    def refuse(found: Path) -> None:
        if found == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def read_bytes(found: Path) -> bytes:
        refuse(found)
        return read(found)

    def open_(found: Path, *arguments: Any, **named: Any) -> Any:
        refuse(found)
        return opened(found, *arguments, **named)

    with mock.patch.object(Path, "read_bytes", read_bytes), mock.patch.object(Path, "open", open_):
        yield


@contextlib.contextmanager
def _read_only_store(workspace: Workspace) -> Iterator[None]:
    with _refusing_writes(workspace, lambda: OSError(errno.EROFS, os.strerror(errno.EROFS)), after=0):
        yield


@contextlib.contextmanager
def _store_gone(workspace: Workspace) -> Iterator[None]:
    """Move the store away, as where its disk isn't mounted."""
    root = Path(workspace.store.root).parent
    aside = root.with_name("aside")
    root.rename(aside)
    try:
        yield
    finally:
        shutil.rmtree(root, ignore_errors=True)
        aside.rename(root)


_CONDITIONS = {"the store read-only": _read_only_store, "the store gone": _store_gone}


def _is_harmless(kind: str, damage: str) -> bool:
    """Return whether the damage isn't a loss, or a command repaired it: ``prune`` takes the lease.

    Structured documents contain what was recognised, so a missing cache of it is an empty one.
    """
    return kind == "LEASE" or (damage == "missing" and kind == "recognised/")


def _served(workspace: Workspace) -> dict[str, str]:
    """Return the ids of a figure and a document of the live version."""
    objects = Objects(workspace.store)
    figure, document = objects.find("figures/"), objects.find("documents/")
    return {"figure": Path(figure).stem, "document": Path(document).stem}


def _look(workspace: Workspace, file: Path, names: dict[str, str], what: str, outcome: Outcome) -> None:
    versions = sorted(workspace.store.folders("versions")) or ["20260101T000000Z-00000000"]

    def run(arguments: Sequence[str]) -> Reply:
        return run_command([{"PREVIOUS": versions[0], "LIVE": versions[-1]}.get(part, part) for part in arguments])

    replies = [run(arguments) for arguments in commands(file)]
    replies += ask_routes(file, names, draw=what.startswith(("documents/", "LIVE", "ledger")))
    with tempfile.TemporaryDirectory(dir=file.parent.parent) as copied:
        copy = Path(copied) / "corpus"
        shutil.copytree(file.parent, copy, ignore=shutil.ignore_patterns("whole"))
        replies += [run(arguments) for arguments in changing_commands(copy / file.name)]
    for reply in replies:
        outcome.cells += 1
        if _is_a_crash(reply):
            outcome.tracebacks.append(f"{what}: {reply.request}: {reply.code}: {reply.output[-600:]}")
        elif not _names_something(reply):
            outcome.unnamed.append(f"{what}: {reply.request}: {reply.code}: {reply.output[:300]}")


def _heal(workspace: Workspace, file: Path, what: str, outcome: Outcome) -> None:
    """Refresh once, and say if that doesn't make the store healthy."""
    done = run_command(["refresh", str(file)])
    if _is_a_crash(done):
        outcome.tracebacks.append(f"{what}: {done.request}: {done.output[-600:]}")
    if done.code != 0:
        outcome.unhealthy.append(f"{what}: the refresh ends with {done.code}: {done.output[-300:]}")
        return
    seen = [finding for finding in diagnose([str(file)], deep=True).findings if not finding.ok]
    outcome.unhealthy += [f"{what}: after the refresh: {finding.subject}: {finding.message}" for finding in seen]
    _ask(workspace, what, outcome)


def _ask(workspace: Workspace, what: str, outcome: Outcome) -> None:
    """Ask for every row of the live version; all must be there, and those of one version, and every source accounted for."""
    published = PublishedCorpus(workspace)
    try:
        result = published.search(Query(_QUESTION, preset="dense", k=10_000))
        manifest = read_manifest(workspace.store, result.version)
        ledger = read_ledger(workspace.store, result.version)
        indexed = {row.doc_id for row in ledger if row.status is Status.INDEXED}
        if manifest is None or len(result.hits) != manifest.counts.rows or {hit.doc_id for hit in result.hits} != indexed:
            outcome.wrong_answers.append(f"{what}: {len(result.hits)} rows of {result.version}")
        with published.opened(result.version) as opened:
            for figure in {figure for hit in result.hits for figure in hit.figure_refs}:
                opened.figure(figure)
        outcome.answers += 1
        listed = {file.source for file in workspace.source().files()}
        outcome.lost += [f"{what}: {source} is in no ledger" for source in sorted(listed - {row.source for row in ledger})]
    except InsetError as error:
        outcome.unhealthy.append(f"{what}: {error.message}")
    finally:
        published.close()


# ---- rounds ----


class _Faults:
    """The faults of rounds: a method for each kind returns a context manager that injects it."""

    def __init__(self, folder: Path, workspace: Workspace, pick: random.Random) -> None:
        self._folder, self._workspace, self._pick = folder, workspace, pick
        self._seed = itertools.count(MANUALS)
        self._objects = Objects(workspace.store)

    def kinds(self) -> list[str]:
        """Return the kinds of faults that the store can have."""
        common = ["kill", "flip", "truncate", "lose", "vanish", "unreadable_source"]
        local = ["full_disk", "read_only", "unreadable_folder", "clock"]
        return common + (local if isinstance(self._workspace.store, FolderStore) else [])

    def change(self) -> None:
        """Change a document of the source, so that there is something to refresh."""
        change(self._folder, next(self._seed))

    def make(self, kind: str) -> contextlib.AbstractContextManager[None]:
        """Return the context manager that injects a fault of a kind."""
        made: contextlib.AbstractContextManager[None] = getattr(self, f"_{kind}")()
        return made

    @contextlib.contextmanager
    def _flip(self) -> Iterator[None]:
        self._break("flipped")
        yield

    @contextlib.contextmanager
    def _truncate(self) -> Iterator[None]:
        self._break("truncated")
        yield

    @contextlib.contextmanager
    def _lose(self) -> Iterator[None]:
        self._break("missing")
        yield

    def _break(self, damage: str) -> None:
        while True:
            kind = self._pick.choice(KINDS)
            with contextlib.suppress(ValueError, StopIteration, InsetError):  # there is no such object now
                self._objects.break_(self._objects.find(kind), DAMAGES[damage])
                return

    @contextlib.contextmanager
    def _kill(self) -> Iterator[None]:
        """End a refresh after a number of writes, without its clean-up."""
        left = self._pick.randint(1, 40)
        with _refusing_writes(self._workspace, _Killed, after=left):
            yield

    @contextlib.contextmanager
    def _full_disk(self) -> Iterator[None]:
        after = self._pick.randint(1, 40)
        with _refusing_writes(self._workspace, lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), after=after):
            yield

    @contextlib.contextmanager
    def _read_only(self) -> Iterator[None]:
        with _refusing_writes(self._workspace, lambda: OSError(errno.EROFS, os.strerror(errno.EROFS)), after=0):
            yield

    @contextlib.contextmanager
    def _unreadable_folder(self) -> Iterator[None]:
        where = self._pick.choice(("figures", "versions", "parsed", "vectors"))
        scandir = os.scandir

        def refuse(path: Any = ".") -> Any:
            if f"/{where}" in str(path) and str(path).startswith(self._workspace.store.root):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return scandir(path)

        with mock.patch.object(os, "scandir", refuse):
            yield

    @contextlib.contextmanager
    def _unreadable_source(self) -> Iterator[None]:
        """Replace a document of the source by a folder, which is neither listed nor read."""
        path = self._pick.choice(sorted((self._folder / "pdfs").glob("*.pdf")))
        aside = path.with_suffix(".aside")
        path.rename(aside)
        path.mkdir()
        try:
            yield
        finally:
            path.rmdir()
            aside.rename(path)

    @contextlib.contextmanager
    def _vanish(self) -> Iterator[None]:
        path = self._pick.choice(sorted((self._folder / "pdfs").glob("*.pdf")))
        aside = path.with_suffix(".aside")
        path.rename(aside)
        try:
            yield
        finally:
            aside.rename(path)

    @contextlib.contextmanager
    def _clock(self) -> Iterator[None]:
        """Write the lease, an hour old by the store's clock, of a run whose clock was ahead, or behind."""
        until = datetime.now(UTC) + timedelta(days=self._pick.choice((-3650, -1, 1, 3650)))
        lease = Lease(run_id="other clock", fence=1, until=until, host="elsewhere")
        store = self._workspace.store
        store.swap(LEASE, lease.model_dump_json().encode(), store.etag(LEASE))
        an_hour_ago = time.time() - 3600
        os.utime(Path(store.root) / LEASE, (an_hour_ago, an_hour_ago))
        yield


class _Killed(BaseException):
    """Ends a refresh in this process as a kill would."""


@contextlib.contextmanager
def _refusing_writes(workspace: Workspace, error: Callable[[], BaseException], *, after: int) -> Iterator[None]:
    """Let writes to a store fail after the first ``after``."""
    left = itertools.count(after, -1)
    kind: Any = type(workspace.store)
    method = "_write" if isinstance(workspace.store, FolderStore) else "replace"
    write = getattr(kind, method)

    def refuse(*arguments: Any, **named: Any) -> Any:
        if next(left) <= 0:
            raised = error()
            if isinstance(raised, OSError):
                from backends.stores.object_store import _folder_errors

                with _folder_errors(Path(workspace.store.root)):
                    raise raised
            raise raised
        return write(*arguments, **named)

    made = staticmethod(refuse) if isinstance(workspace.store, FolderStore) else refuse
    with mock.patch.object(kind, method, made):
        yield


def rounds(
    folder: Path,
    count: int,
    seed: int,
    *,
    store: str = "store",
    index: str = "lancedb",
    around: Callable[[random.Random], contextlib.AbstractContextManager[None]] | None = None,
    log: Callable[[str], object] = lambda _line: None,
) -> Outcome:
    """Inject faults into a corpus, one a round, and check after each that one refresh repairs it.

    Args:
        folder: One that isn't there yet, for the corpus.
        count: How often.
        seed: Of the random choices.
        store: Where the corpus file says the store is.
        index: The engine, as the corpus file spells it.
        around: Returns a further fault for each round.
        log: Called with a line a round.
    """
    pick, outcome = random.Random(seed), Outcome()
    file = write_corpus(folder, store=store, index=index)
    workspace = open_workspace(str(file))
    faults = _Faults(folder, workspace, pick)
    refresh(workspace)
    faults.change()
    refresh(workspace)
    for turn in range(count):
        kind = pick.choice(faults.kinds())
        if pick.random() < 0.5:
            faults.change()
        before = len(outcome.faults())
        more = around(pick) if around is not None else contextlib.nullcontext()
        with faults.make(kind), more:
            _asked_amid(workspace, file, f"round {turn}, {kind}", outcome)
            done = run_command(["refresh", str(file)])
        if done.code == 70 and _Killed.__name__ in done.output:
            done = Reply(done.request, 137, "")
        if _is_a_crash(done):
            outcome.tracebacks.append(f"round {turn}, {kind}: {done.request}: {done.output[-600:]}")
        _free_lease(workspace)
        run_command(["doctor", str(file), "--deep"])
        _heal(workspace, file, f"round {turn}, {kind}", outcome)
        outcome.rounds[kind] += 1
        log(f"round {turn}: {kind}: the refresh amid it ends with {done.code}; {len(outcome.faults()) - before} faults")
        for line in outcome.faults() if len(outcome.faults()) > before else ():
            log(f"    {line}")
    return outcome


def _free_lease(workspace: Workspace) -> None:
    """Assign the lease that a failed refresh kept to an ended process; its own, this one, goes on."""
    store = workspace.store
    with contextlib.suppress(InsetError):
        found = store.read_mutable(LEASE)
        lease = Lease.model_validate_json(found[0]) if found else None
        if found is not None and lease is not None and lease.pid == os.getpid():
            gone = subprocess.Popen([sys.executable, "-c", ""])
            gone.wait()
            store.swap(LEASE, lease.model_copy(update={"pid": gone.pid}).model_dump_json().encode(), found[1])


def _asked_amid(workspace: Workspace, file: Path, what: str, outcome: Outcome) -> None:
    """Search during a fault: the answer is whole and of one version, or one line says why there is none."""
    reply = run_command(["search", str(file), _QUESTION, "--preset", "dense", "-k", "1000", "--json"])
    if _is_a_crash(reply):
        outcome.tracebacks.append(f"{what}: {reply.request}: {reply.output[-600:]}")
    if reply.code != 0:
        return
    with contextlib.suppress(InsetError):  # what is asked for below may be what is damaged
        found = json.loads(reply.output[reply.output.index("{") :])
        manifest = read_manifest(workspace.store, found["version"])
        if manifest is not None and len(found["hits"]) != manifest.counts.rows:
            outcome.wrong_answers.append(f"{what}: {len(found['hits'])} rows of {found['version']}")
        outcome.answers += 1


def s3_rounds(folder: Path, count: int, seed: int, *, log: Callable[[str], object] = lambda _line: None) -> Outcome:
    """Run rounds on S3, each through a network that breaks some replies."""
    from tests.s3_server import Fault, FaultyNetwork, running

    faults: tuple[Fault, ...] = ("busy", "cut", "flipped", "lost")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    with running() as server, mock.patch.dict(os.environ, keys | {"AWS_ENDPOINT_URL": server}):
        s3_client().create_bucket(Bucket="faults")
        network = FaultyNetwork(server)
        os.environ["AWS_ENDPOINT_URL"] = network.url

        @contextlib.contextmanager
        def breaking(pick: random.Random) -> Iterator[None]:
            for method in ("GET", "PUT", "HEAD"):
                # Not twice the same at once: five in a row are no network any more.
                network.breaks(method, *(pick.choice(faults[:1] if method == "HEAD" else faults) for _ in range(3)))
            yield
            network.faults.clear()

        try:
            return rounds(folder, count, seed, store="s3://faults/store", around=breaking, log=log)
        finally:
            network.close()


def weaviate_rounds(folder: Path, count: int, seed: int, *, log: Callable[[str], object]) -> Outcome:
    """Run rounds with a Weaviate server that is stopped in some and started again."""
    from tests.weaviate_server import StartedServer

    (folder.parent / "server").mkdir()
    started = StartedServer(shutil.which("weaviate") or "", folder.parent / "server")
    started.start()
    try:

        @contextlib.contextmanager
        def stopping(pick: random.Random) -> Iterator[None]:
            away = pick.random() < 0.5
            if away:
                started.stop()
            try:
                yield
            finally:
                started.start()

        index = f"weaviate, url: '{started.server.url}', grpc_port: {started.server.grpc_port}"
        return rounds(folder, count, seed, index=index, around=stopping, log=log)
    finally:
        started.server.close()
        started.stop()


if __name__ == "__main__":
    main()
