"""The package of the client, installed alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
UV = Path(sys.executable).parent / "uv"

_ASK = """
import sys, inset_client
assert "site-packages" in inset_client.__file__
with inset_client.Client(sys.argv[1]) as inset:
    print(inset.search("pumps", query="valve")["hits"][0]["source"])
"""


@pytest.mark.slow
def test_the_client_is_installed_alone_and_needs_httpx_only(tmp_path: Path, url: str) -> None:
    python, package = tmp_path / "bin" / "python", tmp_path / "package"
    shutil.copytree(ROOT / "clients" / "python", package, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=env, check=True, text=True, stdout=subprocess.PIPE)
        return done.stdout

    run(UV, "venv", "--quiet", "--allow-existing", "--python", sys.executable, tmp_path)
    run(UV, "pip", "install", "--quiet", "--python", python, "httpx")
    listed = (UV, "pip", "list", "--python", python, "--format", "json")
    before = {package["name"] for package in json.loads(run(*listed))}
    run(UV, "pip", "install", "--quiet", "--python", python, package)
    assert {package["name"] for package in json.loads(run(*listed))} == before | {"inset-client"}
    assert run(python, "-W", "error", "-c", _ASK, url) == "manuals/pump.pdf\n"
