"""What is generated of the Python client, and what a checkout without it does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GENERATED = ("models.py", "_sync/__init__.py")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that has of a checkout what the client is generated from."""
    ignored = shutil.ignore_patterns("models.py", "_sync", "__pycache__", "build", "*.egg-info")
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
    models, synchronous = _generate(checkout)
    assert models != first[0]
    assert synchronous == first[1]
    assert "class Overviewed(" in (checkout / "clients/python/inset_client/models.py").read_text(encoding="utf-8")


def test_a_checkout_without_generated_files_has_the_asynchronous_client(checkout: Path) -> None:
    # The editable installation would find the generated files in the checkout of these tests.
    hidden = "import sys; sys.modules |= {'inset_client._sync': None, 'inset_client.models': None}"
    process = _python(checkout, "-c", f"{hidden}; import inset_client.mcp; print(inset_client.AsyncClient.__name__)")
    assert (process.stdout, process.stderr) == ("AsyncClient\n", "")
    process = _python(checkout, "-c", f"{hidden}; from inset_client import Client")
    assert process.stderr.splitlines()[-1] == (
        "ImportError: inset_client.Client is not generated; run 'make client' in the checkout, or pip install clients/python"
    )
