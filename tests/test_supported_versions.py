"""The guide on upgrades names the versions that the lock has, and the release is one everywhere."""

import re
import tomllib
from pathlib import Path

import yaml
from typer.testing import CliRunner

from backends.engines.weaviate_server import FLOOR
from cli.main import app
from schemas.base import RELEASE

ROOT = Path(__file__).parent.parent


def test_the_table_of_supported_versions_is_that_of_the_lock() -> None:
    table = dict(
        re.findall(
            r"^\| (\w+) \| (.+\|.+) \|$",
            (ROOT / "docs" / "guides" / "upgrade.md").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    lock = (ROOT / "infra" / "requirements.lock").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==([\w.]+)", lock, re.MULTILINE))
    locked = {"Airflow": "apache-airflow", "Ray": "ray", "LanceDB": "lancedb", "Weaviate": "weaviate-client", "S3": "boto3"}
    for part, package in locked.items():
        assert table[part].endswith(pins[package]), f"{part}: the lock has {package} {pins[package]}"
    for part in ("Airflow", "Ray", "LanceDB"):
        assert table[part].startswith(pins[locked[part]].rpartition(".")[0])
    assert table["Weaviate"].startswith(".".join(map(str, FLOOR)))
    image = yaml.safe_load((ROOT / "infra" / "compose.yaml").read_text(encoding="utf-8"))["services"]["weaviate"]["image"]
    assert image.rpartition(":")[2] in table["Weaviate"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11,<3.13"
    assert table["Python"].startswith("3.11, 3.12 ")


def test_the_release_is_one_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == RELEASE
    assert CliRunner().invoke(app, ["--version"]).stdout == f"inset {RELEASE}\n"
    released = re.findall(
        r"^## \[(\d[\d.]*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )
    assert released[0] == RELEASE
