"""The compose file keeps its rules, and what it starts is there: no Docker is needed to see that."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
COMPOSE = yaml.safe_load((INFRA / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROFILES = {"airflow", "postgres", "ray", "weaviate", "s3", "query", "redis", "monitoring"}
ONCE = {"owner", "airflow-setup"}
"""Services that end by themselves."""

KEYS = {
    "cap_drop",
    "command",
    "cpus",
    "depends_on",
    "environment",
    "healthcheck",
    "image",
    "init",
    "logging",
    "mem_limit",
    "network_mode",
    "ports",
    "profiles",
    "restart",
    "secrets",
    "security_opt",
    "shm_size",
    "stop_grace_period",
    "user",
    "volumes",
}
"""Keys of the compose specification that are used; a misspelled one isn't among them."""


def test_every_profile_starts_alone() -> None:
    assert {profile for service in SERVICES.values() for profile in service["profiles"]} == PROFILES
    for name, service in SERVICES.items():
        assert set(service) <= KEYS, name
        for dependency, requirement in service.get("depends_on", {}).items():
            assert set(service["profiles"]) <= set(SERVICES[dependency]["profiles"]), (
                f"{name} wants {dependency} in its profiles"
            )
            condition = "service_completed_successfully" if dependency in ONCE else "service_healthy"
            assert requirement == {"condition": condition}
            if dependency not in ONCE:
                assert "test" in SERVICES[dependency].get("healthcheck", {}) or SERVICES[dependency]["image"].startswith(
                    "${INSET"
                )


def test_limits_health_and_restarts_are_set() -> None:
    for name, service in SERVICES.items():
        assert {"mem_limit", "cpus", "healthcheck"} <= set(service), name
        if name not in ONCE:
            assert service["restart"] == "unless-stopped", name
            assert "test" in service["healthcheck"], name
            assert "no-new-privileges:true" in service["security_opt"], name
        image = service["image"]
        assert re.fullmatch(r".+:[\w.-]*\d[\w.-]*\}?", image), f"{name}: {image} has no release"
        assert not image.endswith("latest")


def test_ports_are_of_this_machine_alone_and_taken_once() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    hosts = [port.split(":")[1] for port in ports]
    assert len(hosts) == len(set(hosts))


def test_secrets_come_from_files_that_the_script_makes(tmp_path: Path) -> None:
    script = shutil.copy(INFRA / "compose-secrets.sh", tmp_path)
    subprocess.run(["sh", script], check=True)
    secrets = {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "secrets").iterdir()}
    assert {secret["file"] for secret in COMPOSE["secrets"].values()} == {f"secrets/{name}" for name in secrets}
    used = {secret for service in SERVICES.values() for secret in service.get("secrets", [])}
    assert used == set(COMPOSE["secrets"])
    assert secrets["postgres_password"] in secrets["airflow_database"]
    assert oct((tmp_path / "secrets").stat().st_mode & 0o777) == "0o700"
    subprocess.run(["sh", script], check=True)
    assert secrets == {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "secrets").iterdir()}
    assert subprocess.run(["git", "check-ignore", "-q", "infra/secrets/x"], cwd=ROOT, check=False).returncode == 0
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"(?i)passw|secret|fernet|_key|conn", variable):
                assert re.search(r"^/run/secrets/|^cat /run/secrets/|^/tmp/passwords$", str(value)), f"{name}: {variable}"


def test_volumes_are_named_and_files_exist() -> None:
    used = set()
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (INFRA / source).exists(), source
                assert volume.endswith(":ro")
            else:
                used.add(source)
    assert used == set(COMPOSE["volumes"])


def test_prometheus_and_grafana_read_their_files() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    subprocess.run(["promtool", "check", "config", "--syntax-only", INFRA / "prometheus" / "prometheus.yaml"], check=True)
    config = yaml.safe_load((INFRA / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8"))
    (target,) = config["scrape_configs"][0]["static_configs"][0]["targets"]
    service, _, port = target.partition(":")
    assert any(published.endswith(f":{port}") for published in SERVICES[service]["ports"])
    provisioning = INFRA / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text(encoding="utf-8"))[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "inset.yaml").read_text(encoding="utf-8"))["providers"]
    assert f"./grafana/inset.json:{provider['options']['path']}/inset.json:ro" in SERVICES["grafana"]["volumes"]


@pytest.mark.slow
def test_commands_of_inset_airflow_and_ray_have_the_options_that_they_are_given(tmp_path: Path) -> None:
    commands = [service["command"] for service in SERVICES.values() if service["image"].startswith("${INSET")]
    commands += [service["healthcheck"].get("test", [""])[1:] for service in SERVICES.values()]
    commands += [["airflow", "api-server", "--port", "8080"]]
    env = os.environ | {"AIRFLOW_HOME": str(tmp_path), "COLUMNS": "200"}
    tried = 0
    for command in commands:
        if command and command[0] in ("inset", "airflow", "ray"):
            words = [word for word in command[1:3] if re.fullmatch(r"[a-z-]*[a-z]", word) and not word.startswith("-")]
            program = Path(sys.executable).parent / command[0]
            help_text = subprocess.run(
                [program, *words, "--help"], env=env, capture_output=True, text=True, check=True
            ).stdout
            for option in (word for word in command if word.startswith("--")):
                assert option in help_text, f"{' '.join(command)}: {option}"
            tried += 1
    assert tried >= 10


@pytest.mark.slow
def test_airflow_reads_its_secrets_by_commands(tmp_path: Path) -> None:
    environment = SERVICES["airflow-scheduler"]["environment"]
    settings = [name.removeprefix("AIRFLOW__").removesuffix("_CMD") for name in environment if name.endswith("_CMD")]
    (tmp_path / "secret").write_text("postgresql+psycopg://made:up@localhost/up", encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    env |= {"AIRFLOW_HOME": str(tmp_path)}
    env |= {f"AIRFLOW__{name}_CMD": f"cat {tmp_path / 'secret'}" for name in settings}
    option_paths = [tuple(name.lower().split("__")) for name in settings]
    code = f"from airflow.configuration import conf; print([conf.get(*name) for name in {option_paths!r}])"
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == str(["postgresql+psycopg://made:up@localhost/up"] * len(settings))
