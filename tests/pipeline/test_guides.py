"""Every guide is followed to the letter: its blocks are written into a copy of the code, and its commands are run there.

A command that ends in ``&`` runs until the guide does. ``PORT`` is replaced by a free one.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.free_port import free_port
from tests.pipeline.conftest import publish_manuals, write_corpus

ROOT = Path(__file__).parent.parent.parent
GUIDES = sorted(
    guide
    for guide in (ROOT / "docs" / "guides").glob("*.md")
    if guide.stem not in ("formats", "models-for-a-gpu", "upgrade")
)
"""Guides with commands."""
PORT = "8750"
CODE = (
    "backends",
    "cli",
    "clients",
    "evaluation",
    "pipeline",
    "query_service",
    "ray_jobs",
    "schemas",
    "tasks",
    "tests",
    "workers",
)

_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of a guide: a ``diff`` of a file, the whole of one or what is added to it (``append``), or commands and replies."""

    kind: str
    file: str | None
    text: str

    def applied(self, text: str) -> str:
        """Return a file as the diff leaves it; its lines without a mark stand there together, and once."""
        lines = [(line[:1] or " ", line[1:]) for line in self.text.splitlines()]
        before, after = (
            "".join(f"{line}\n" for mark, line in lines if mark != excluded_mark) for excluded_mark in ("+", "-")
        )
        assert text.count(before) == 1, (
            f"{self.file} has changed: the guide's place stands there {text.count(before)} times"
        )
        return text.replace(before, after)


def blocks(guide: Path, port: str = PORT) -> list[Block]:
    matches = _BLOCK.finditer(guide.read_text(encoding="utf-8").replace(PORT, port))
    return [Block(match["kind"], match["file"], match["text"]) for match in matches]


@dataclass(frozen=True)
class Turn:
    """A command of a console, and what the guide shows of its reply; ``…`` stands for anything."""

    command: str
    reply: tuple[str, ...]

    @property
    def pattern(self) -> str:
        """What the reply is found by, whatever stands between its lines."""
        return r"[\s\S]*".join(r"[\s\S]*".join(map(_spaced, line.split("…"))) for line in self.reply)

    @property
    def is_refusal(self) -> bool:
        """Whether the reply is an error, or says that a gate refused the version."""
        return any(line.startswith("inset: ") or "refused by a gate" in line for line in self.reply)


def turns(console: str) -> list[Turn]:
    """Return the commands of a console with their replies."""
    console_turns: list[Turn] = []
    for line in console.splitlines():
        if line.startswith("$ "):
            console_turns.append(Turn(line.removeprefix("$ "), ()))
        else:
            console_turns[-1] = replace(console_turns[-1], reply=(*console_turns[-1].reply, line))
    return console_turns


def _spaced(words: str) -> str:
    return r"\s+".join(map(re.escape, words.split()))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_changes_places_that_are_there(guide: Path) -> None:
    texts: dict[str, str] = {}
    for block in blocks(guide):
        if block.kind == "diff":
            file = str(block.file)
            texts[file] = block.applied(texts.get(file) or (ROOT / file).read_text(encoding="utf-8"))
    assert blocks(guide)


@pytest.fixture(scope="module")
def refreshed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a corpus with a version live, parsed by default as guides write it; not to be touched."""
    folder = tmp_path_factory.mktemp("guides")
    file = write_corpus(folder)
    file.write_text(file.read_text().replace(", layout: never", ""))
    publish_manuals(folder, file)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_does_what_it_says(guide: Path, refreshed: Path, tmp_path: Path) -> None:
    shutil.copytree(refreshed, tmp_path, dirs_exist_ok=True)
    for name in CODE:
        shutil.copytree(ROOT / name, tmp_path / name)  # with its bytecode, which every command would compile again
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with ExitStack() as running:
        _follow(blocks(guide, str(free_port())), tmp_path, running)


def _follow(guide: list[Block], folder: Path, running: ExitStack) -> None:
    commands = [turn.command for block in guide if block.kind == "console" for turn in turns(block.text)]
    for tool in ("curl", "npm"):
        if any(tool in command.split() for command in commands) and shutil.which(tool) is None:
            pytest.skip(f"needs {tool} on PATH")
    for block in guide:
        file = folder / str(block.file)
        if block.kind == "console":
            for turn in turns(block.text):
                if turn.command.endswith("&"):
                    running.enter_context(_running(turn.command.removesuffix("&"), folder))
                    continue
                code, printed = _run(turn.command, folder)
                assert re.search(turn.pattern, printed), f"{turn.command} prints:\n{printed}"
                assert (code != 0) is turn.is_refusal, f"{turn.command} ends with {code} and prints:\n{printed}"
        elif block.kind == "diff":
            file.write_text(block.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        elif block.kind == "append":
            file.write_text(file.read_text(encoding="utf-8") + block.text, encoding="utf-8")
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(block.text, encoding="utf-8")


def _run(command: str, folder: Path) -> tuple[int, str]:
    process = subprocess.run(
        command, shell=True, cwd=folder, env=_env(folder), text=True, capture_output=True, check=False, timeout=600
    )
    return process.returncode, process.stdout + process.stderr


@contextmanager
def _running(command: str, folder: Path) -> Iterator[None]:
    with (
        (folder / "running.log").open("w") as log,
        subprocess.Popen(
            command, shell=True, cwd=folder, env=_env(folder), stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def _env(folder: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("INSET", "PYTEST", "COV"))}
    tools = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    code = os.pathsep.join([str(folder), str(folder / "clients" / "python")])
    return environment | {"PYTHONPATH": code, "PATH": tools, "COLUMNS": "500"}
