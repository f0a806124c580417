"""What holds for the checkout as a whole."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
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
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT, env=env
    )
    loaded: list[str] = json.loads(process.stdout.splitlines()[-1])
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
    requirements = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    names = {Requirement(need).name for need in requirements} - {"inset"}
    assert names <= {entry.name for entry in entries}


def test_editors_know_the_corpus_file_as_it_is(request: pytest.FixtureRequest) -> None:
    file = ROOT / "corpora" / SCHEMA_FILE
    if request.config.getoption("--update-golden"):
        file.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    stored_schema = json.loads(file.read_text(encoding="utf-8"))
    assert stored_schema == json_schema(), (
        "inset init writes it beside each corpus file it makes; here: pytest --update-golden"
    )


CLEARLY_NAMED = (
    "backends/models",
    "backends/pdf",
    "evaluation",
    "schemas",
    "tasks/enriching",
    "tasks/figures",
    "tasks/reading",
    "tasks/tables",
    "workers",
)
"""Folders whose names say what they hold; the others follow."""
EMPTY_WORDS = frozenset(
    "found one ones made own place places named known there each held given kept taken wanted asked told said seen left lacks "
    "lacked had gone new fresh these those other others both either rest more most what where when here it them us whole work "
    "works thing things way ways seems shown looked done begun ended written begins".split()
)
"""Words that can stand for anything; ``manifest``, ``hits`` or ``caption_box`` says what a variable holds."""
MOST_EMPTY = 0.03
"""Share of functions with such a parameter or variable in docling, haystack, dlt, httpx and kedro: 0.005 to 0.025."""

NAMED_ALIKE = frozenset("Admission Candidate Comparison Correction Difference Judged Judgement Material Outcome".split())
"""Public names that still stand for several classes: names go from this list, none is added."""


def _empty_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = function.args
    names = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {leaf.id for leaf in ast.walk(function) if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)}
    return names & EMPTY_WORDS


def _modules(folder: str) -> Iterator[tuple[str, ast.Module]]:
    for file in sorted((ROOT / folder).rglob("*.py")):
        yield str(file.relative_to(ROOT)), ast.parse(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", CLEARLY_NAMED)
def test_names_say_what_they_hold(folder: str) -> None:
    functions = {
        f"{file}:{node.lineno} {node.name}": _empty_names(node)
        for file, module in _modules(folder)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    empty = {function: sorted(names) for function, names in functions.items() if names}
    assert len(empty) <= MOST_EMPTY * len(functions), f"name by role and type what these hold: {empty}"


def test_a_public_name_stands_for_one_class() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    folders = {pattern.rstrip("*") for pattern in packages["find"]["include"]} - {"bench", "inset_client"}
    files: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        for file, module in _modules(folder):
            for node in module.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    files[node.name].append(file)
    alike = {name: locations for name, locations in files.items() if len(locations) > 1}
    assert alike.keys() <= NAMED_ALIKE, alike
