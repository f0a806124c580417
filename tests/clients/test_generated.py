"""What is generated of the Python client is up to date: its models, and the synchronous client.

To renew it: ``pytest --update-golden tests/clients/test_generated.py``.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import unasync

PACKAGE = Path(__file__).parent.parent.parent / "clients" / "python"
CONFIG = PACKAGE.parent.parent / "pyproject.toml"
MODELS = Path("inset_client", "models.py")
SYNC = Path("inset_client", "_sync", "__init__.py")

_NAMES = {
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "aread": "read",
    "asyncio": "time",
}


def test_the_models_are_those_of_the_openapi_document(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    made = tmp_path / "models.py"
    _run("datamodel-codegen", "--output", made)
    _run("ruff", "format", "--quiet", "--no-cache", "--config", CONFIG, made)
    _check(MODELS, made, request)


def test_the_synchronous_client_is_the_asynchronous_one_without_await(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shutil.copytree(PACKAGE, tmp_path, dirs_exist_ok=True)
    rule = unasync.Rule("/_async/", "/_sync/", additional_replacements=_NAMES)
    unasync.unasync_files([str(tmp_path / "inset_client" / "_async" / "__init__.py")], [rule])
    made = tmp_path / SYNC
    _run("ruff", "check", "--select", "I", "--fix", "--quiet", "--no-cache", "--config", CONFIG, made)
    _run("ruff", "format", "--quiet", "--no-cache", "--config", CONFIG, made)
    _check(SYNC, made, request)


def _run(tool: str, *arguments: str | Path) -> None:
    subprocess.run([Path(sys.executable).parent / tool, *arguments], cwd=PACKAGE, check=True)


def _check(name: Path, made: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        shutil.copy(made, PACKAGE / name)
    kept = (PACKAGE / name).read_text(encoding="utf-8")
    assert kept == made.read_text(encoding="utf-8"), f"renew {name} with: pytest --update-golden {Path(__file__).name}"
