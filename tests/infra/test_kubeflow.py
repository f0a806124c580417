"""The Kubeflow pipeline: its compiled file, and its components under kfp's local runner."""

import json
import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from cli.main import app
from pipeline.corpus.workspace import open_workspace
from pipeline.records.manifests import read_manifest
from pipeline.records.publication import read_pointer
from pipeline.run import RefreshRun
from schemas.stages import ON_A_VERSION, Stage

ROOT = Path(__file__).parents[2]
COMPILED = ROOT / "infra" / "kubeflow" / "pipeline.yaml"
PYTHON = ROOT / ".venv-kubeflow" / "bin" / "python"
MANUALS = ROOT / "examples" / "manuals" / "pdfs"

needs_kfp = pytest.mark.skipif(not PYTHON.exists(), reason="there is no .venv-kubeflow with kfp: make kubeflow")

_IN_ORDER = """
import json, sys
from kfp import local
from infra.kubeflow import pipeline

local.init(local.DockerRunner(environment=json.loads(sys.argv[1])), pipeline_root=sys.argv[2])
run = {"corpus": "manuals", "run": "run-1"}
planned = pipeline.plan(groups=8, **run).outputs
for shards in planned["shards"]:
    pipeline.parse(version=planned["version"], shards=shards, **run)
for component in [*pipeline.on_a_version, pipeline.publish]:
    component(version=planned["version"], **run)
pipeline.release(**run)
print(json.dumps(planned))
"""
"""Runs each component by itself, in the pipeline's order: the local runner of kfp 2.16.1 can't run a loop in an exit handler."""


@pytest.fixture(scope="module")
def compiled() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pipeline, and what of it is for Kubernetes alone."""
    pipeline, platforms = yaml.safe_load_all(COMPILED.read_text(encoding="utf-8"))
    return pipeline, platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def _tasks(pipeline: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tasks of all DAGs by name."""
    dags = [part["dag"] for part in [pipeline["root"], *pipeline["components"].values()] if "dag" in part]
    return {name: task for dag in dags for name, task in dag["tasks"].items()}


def test_the_stages_follow_each_other_within_the_exit_handler(compiled: tuple[dict[str, Any], dict[str, Any]]) -> None:
    pipeline, _ = compiled
    inner = pipeline["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    loop = pipeline["components"]["comp-for-loop-2"]["dag"]["tasks"]
    order = ["plan", "for-loop-2", *ON_A_VERSION, "publish"]
    assert set(inner) == set(order)
    assert set(loop) == {"parse"}
    for before, name in pairwise(order):
        assert before in inner[name]["dependentTasks"]
    assert inner["for-loop-2"]["parameterIterator"]["items"] == {"inputParameter": "pipelinechannel--plan-shards"}
    release = pipeline["root"]["dag"]["tasks"]["release"]
    assert release["dependentTasks"] == ["exit-handler-1"]
    assert release["triggerPolicy"]["strategy"] == "ALL_UPSTREAM_TASKS_COMPLETED"


def test_no_task_is_cached_and_all_but_publish_are_retried(compiled: tuple[dict[str, Any], dict[str, Any]]) -> None:
    steps = {name: task for name, task in _tasks(compiled[0]).items() if name in [*Stage, "release"]}
    assert steps.keys() == {*Stage, "release"}
    for name, task in steps.items():
        assert not task["cachingOptions"].get("enableCache", False)
        assert ("retryPolicy" in task) == (name != "publish")


def test_enrich_alone_asks_for_the_accelerators_of_the_corpus_file(
    compiled: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    pipeline, _ = compiled
    executors = pipeline["deploymentSpec"]["executors"]
    asking = {name: parts["container"]["resources"].get("accelerator") for name, parts in executors.items()}
    accelerator = asking.pop("exec-enrich")
    assert set(asking.values()) == {None}
    assert accelerator["resourceType"] == "nvidia.com/gpu"
    assert "pipelinechannel--plan-gpus" in accelerator["resourceCount"]
    parameters = pipeline["components"]["comp-exit-handler-1"]["dag"]["tasks"]["enrich"]["inputs"]["parameters"]
    assert parameters["pipelinechannel--plan-gpus"]["taskOutputParameter"] == {
        "outputParameterKey": "gpus",
        "producerTask": "plan",
    }


def test_groups_of_tasks_receive_what_their_tasks_use(compiled: tuple[dict[str, Any], dict[str, Any]]) -> None:
    pipeline, executors = compiled
    for name, part in [("root", pipeline["root"]), *pipeline["components"].items()]:
        for step, task in part.get("dag", {}).get("tasks", {}).items():
            inputs = task.get("inputs", {}).get("parameters", {})
            used = {
                parameter["componentInputParameter"]
                for parameter in inputs.values()
                if "componentInputParameter" in parameter
            }
            if step in [*Stage, "release"]:
                executor = executors[f"exec-{step}"]
                used.add(executor["configMapAsVolume"][0]["configMapNameParameter"]["componentInputParameter"])
                used.add(executor["secretAsEnv"][0]["secretNameParameter"]["componentInputParameter"])
            assert used <= set(part["inputDefinitions"]["parameters"]), f"{name} doesn't receive what {step} uses"


def test_the_command_has_each_option_that_a_container_passes(compiled: tuple[dict[str, Any], dict[str, Any]]) -> None:
    command: Any = typer.main.get_command(app)
    options = {option for parameter in command.commands["step"].params for option in parameter.opts}
    executors = compiled[0]["deploymentSpec"]["executors"]
    for step in {*Stage, "release"}:
        container = executors[f"exec-{step}"]["container"]
        assert container["command"] == ["inset", "step", step]
        assert {word for word in container["args"] if word.startswith("--")} <= options


def test_the_requirements_name_no_index_and_fit_what_was_compiled(compiled: tuple[dict[str, Any], dict[str, Any]]) -> None:
    requirements = COMPILED.with_name("requirements.txt").read_text(encoding="utf-8")
    assert "://" not in requirements
    assert compiled[0]["sdkVersion"].replace("-", "==") in [line.split(" ")[0] for line in requirements.splitlines()]


@pytest.mark.slow
@needs_kfp
def test_the_compiled_file_is_that_of_the_source(tmp_path: Path) -> None:
    compiled_file = tmp_path / "pipeline.yaml"
    subprocess.run([PYTHON, "-m", "infra.kubeflow.pipeline", compiled_file], cwd=ROOT, check=True)
    assert compiled_file.read_text(encoding="utf-8") == COMPILED.read_text(encoding="utf-8"), "run: make kubeflow"


@pytest.mark.slow
@needs_kfp
@pytest.mark.endurance
def test_the_components_publish_a_version_under_the_local_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("asymptote-excerpt.pdf", "yosys-manual-excerpt.pdf"):
        (tmp_path / "pdfs").mkdir(exist_ok=True)
        shutil.copy(MANUALS / name, tmp_path / "pdfs")
    file = tmp_path / "corpora" / "manuals.yaml"
    file.parent.mkdir()
    file.write_text("name: manuals\nsource: ../pdfs\nstore: ../store\nparse: {shard_mb: 0.01}\n")
    inside = {
        "INSET_CORPORA": str(file.parent),
        "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{Path(__file__).parent / 'stand_in'}")
    command = [str(PYTHON), "-c", _IN_ORDER, json.dumps(inside), str(tmp_path / "root")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    planned = json.loads(ran.stdout.splitlines()[-1])
    assert planned["shards"] == ["0", "1"]
    assert planned["gpus"] == 0, "it has no model that runs on one"
    workspace = open_workspace(str(file))
    pointer, manifest = read_pointer(workspace.store), read_manifest(workspace.store, planned["version"])
    assert pointer is not None
    assert manifest is not None
    assert pointer.version == planned["version"]
    assert manifest.run_id == "run-1"
    assert RefreshRun(workspace, "run-2").plan().outcome == "unchanged"  # the lease is free
