"""Alert rules and board: they name gauges that exist, and fire when they should."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from pipeline.operations.health import CorpusHealth, measures
from pipeline.records.states import State
from schemas.gates import GateResult
from schemas.versions import Counts, Spent

ROOT = Path(__file__).parent.parent
RULES = ROOT / "infra" / "prometheus" / "alerts.yaml"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _gauges() -> set[str]:
    gate = GateResult(gate="quarantine ceiling", passed=True, value=0.1, bound=0.2, message="")
    health = CorpusHealth(
        corpus="manuals",
        file="manuals.yaml",
        schedule=None,
        runs="by hand",
        state=State.OK,
        problems=[],
        live_since=NOW,
        last_run=NOW,
        counts=Counts(),
        gates=[gate],
        spent=Spent(),
        seconds={"parse": 1.0},
    )
    return {measure.name.replace(".", "_") for measure in measures(health)} | {"inset_engine_up"}


@pytest.mark.parametrize("file", ["infra/prometheus/alerts.yaml", "infra/grafana/inset.json", "docs/reference/alerts.md"])
def test_gauges_exist(file: str) -> None:
    gauge_names = set(re.findall(r"airflow_(inset_\w*[a-z])", (ROOT / file).read_text()))
    assert gauge_names
    assert gauge_names <= _gauges()


def test_each_alert_has_a_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/reference/alerts.md").read_text(), re.M)
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == headings
    assert all(rule["annotations"]["runbook"].endswith(f"#{rule['alert'].lower()}") for rule in rules)
    assert json.loads((ROOT / "infra/grafana/inset.json").read_text())["uid"] == "inset"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_alerts_fire_when_they_should() -> None:
    process = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yaml"], cwd=RULES.parent, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
