"""What holds for the checkout as a whole."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pipeline.corpus.corpora import SCHEMA_FILE, json_schema

ROOT = Path(__file__).parent.parent
HEAVY = (
    "ray",
    "torch",
    "onnxruntime",
    "lancedb",
    "weaviate",
    "great_expectations",
    "pymupdf",
    "transformers",
    "sentence_transformers",
)

_LOADED = "import json, sys; print(json.dumps([name for name in {heavy!r} if name in sys.modules]))"


def _heavy_after(code: str, env: dict[str, str]) -> list[str]:
    script = f"{code}\n{_LOADED.format(heavy=HEAVY)}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT, env=env
    )
    loaded: list[str] = json.loads(done.stdout.splitlines()[-1])
    return loaded


@pytest.mark.parametrize("code", ["import cli.main", "import pipeline.corpus.schedules", "import dags.refresh"])
def test_the_command_and_the_dag_file_start_light(code: str, airflow_env: dict[str, str]) -> None:
    assert _heavy_after(code, airflow_env) == []


def test_the_lock_pins_every_package_to_digests_and_names_no_index() -> None:
    lock = (ROOT / "infra" / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    entries = [
        Requirement(entry.split(" \\\n")[0]) for entry in re.split(r"\n(?=[a-z])", lock) if not entry.startswith("#")
    ]
    hashes = [line for line in lock.splitlines() if line.strip().startswith("--hash=sha256:")]
    assert all([pin.operator for pin in entry.specifier] == ["=="] for entry in entries)
    assert len(hashes) >= len(entries) > 100
    assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=[a-z])", lock) if not entry.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
    names = {Requirement(need).name for need in wanted} - {"inset"}
    assert names <= {entry.name for entry in entries}


def test_editors_know_the_corpus_file_as_it_is(request: pytest.FixtureRequest) -> None:
    file = ROOT / "corpora" / SCHEMA_FILE
    if request.config.getoption("--update-golden"):
        file.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert kept == json_schema(), "inset init writes it beside each corpus file it makes; here: pytest --update-golden"
