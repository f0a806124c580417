"""What is generated of the Python client, and what a checkout without it does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GENERATED = ("models.py", "_async/client.py", "_sync/__init__.py")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that has of a checkout what the client is generated from."""
    ignored = shutil.ignore_patterns("models.py", "client.py", "_sync", "__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT / "clients" / "python", tmp_path / "clients" / "python", ignore=ignored)
    (tmp_path / "tests" / "golden").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "golden" / "openapi.json", tmp_path / "tests" / "golden")
    return tmp_path


def _python(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(checkout / "clients" / "python")}
    return subprocess.run([sys.executable, *arguments], cwd=checkout, env=env, text=True, capture_output=True, check=False)


def _generate(checkout: Path) -> list[int]:
    """Generate the client; return when each file was written, in nanoseconds."""
    assert (process := _python(checkout, "clients/python/generate.py")).returncode == 0, process.stderr
    return [(checkout / "clients" / "python" / "inset_client" / name).stat().st_mtime_ns for name in GENERATED]


def test_what_is_missing_or_older_than_its_input_is_generated(checkout: Path) -> None:
    first = _generate(checkout)
    assert _generate(checkout) == first
    document = checkout / "tests" / "golden" / "openapi.json"
    document.write_text(document.read_text(encoding="utf-8").replace('"CorpusOverview"', '"Overviewed"'), encoding="utf-8")
    os.utime(document, ns=(newer := first[0] + 10**9, newer))
    assert all(before < after for before, after in zip(first, _generate(checkout), strict=True))
    assert "class Overviewed(" in (checkout / "clients/python/inset_client/models.py").read_text(encoding="utf-8")


def test_a_checkout_without_generated_files_serves_agents_and_has_no_client(checkout: Path) -> None:
    # The editable installation would find the generated files in the checkout of these tests.
    generated = ("inset_client._async.client", "inset_client._sync", "inset_client.models")
    hidden = f"import sys; sys.modules |= dict.fromkeys({generated})"
    contract = f"json.loads(pathlib.Path({str(checkout / 'tests' / 'golden' / 'openapi.json')!r}).read_bytes())"
    served = f"import json, pathlib, inset_client.mcp; inset_client.mcp.server_of(print, {contract})"
    assert _python(checkout, "-c", f"{hidden}; {served}").stderr == ""
    for name in ("AsyncClient", "Client"):
        process = _python(checkout, "-c", f"{hidden}; from inset_client import {name}")
        assert process.stderr.splitlines()[-1] == (
            f"ImportError: inset_client.{name} is not generated; run 'make client' in the checkout, or pip install clients/python"
        )
