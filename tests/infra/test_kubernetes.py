"""The Helm chart of the query service: its values hold to its schema, and it starts the service as the command wants it."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from typer.main import get_command

from cli.main import app

FOLDER = Path(__file__).parents[2] / "infra" / "kubernetes"
CHART = FOLDER / "inset"
EVERYTHING = {
    "ingress": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "autoscaling": {"latencySeconds": "0.5"},
    "store": {"claim": "stores"},
    "redisSecret": "redis",
    "environmentSecrets": ["inset-environment"],
    "environment": {"AWS_REGION": "eu-central-1"},
    "arguments": ["--deadline=30"],
}
helm = pytest.mark.skipif(shutil.which("helm") is None, reason="no 'helm' on PATH, so the chart is not rendered here")


def values() -> dict[str, Any]:
    return dict(yaml.safe_load((CHART / "values.yaml").read_text()))


def schema() -> dict[str, Any]:
    return dict(json.loads((CHART / "values.schema.json").read_text()))


def test_default_values_hold_to_the_schema_and_leave_nothing_out() -> None:
    jsonschema.Draft7Validator(schema()).validate(values())
    assert set(schema()["properties"]) - {"global"} == set(values())


@pytest.mark.parametrize(
    "wrong",
    [{"keysSecret": ""}, {"workers": 0}, {"ingress": {"hots": "x"}}, {"networkPolicy": {"from": []}}, {"key": "s3cret"}],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema()).validate(values() | wrong)


def test_the_command_knows_every_argument_of_the_chart() -> None:
    serve = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    options = {option for parameter in serve.params for option in parameter.opts}
    used = set(re.findall(r"- (--[a-z-]+)=", (CHART / "templates" / "deployment.yaml").read_text()))
    assert used
    assert used <= options


@helm
def test_the_chart_renders_with_every_option(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(EVERYTHING))
    subprocess.run(["helm", "lint", str(CHART), "-f", str(file)], check=True, capture_output=True)
    command = ["helm", "template", "inset", str(CHART), "-f", str(file), "--kube-version", "1.34.0"]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    objects = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(rendered) if manifest}
    assert set(objects) == {
        *("Deployment", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "PodDisruptionBudget"),
        *("Service", "ServiceAccount", "ServiceMonitor"),
    }
    deployment = objects["Deployment"]["spec"]
    selected, pod = deployment["selector"]["matchLabels"], deployment["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    assert selected.items() <= deployment["template"]["metadata"]["labels"].items()
    assert objects["Service"]["spec"]["selector"] == selected
