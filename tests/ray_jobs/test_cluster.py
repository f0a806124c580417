"""A Ray that can't be had is one line that says so; one of this machine alone needs no home folder."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
import ray

from ray_jobs.cluster import actors, connected
from schemas.corpus.operations import RayOptions
from schemas.errors import TransientError


def test_a_ray_that_is_not_up_in_time_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(**_options: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(TransientError, match=r"^Ray can't be started: The current node timed out during startup\.$"):
        connected(RayOptions()).__enter__()


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_cluster_that_is_down_may_come_back(scheme: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it doesn't listen
        address = f"{scheme}127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(TransientError, match=rf"^no Ray cluster answers at {address} \(Connection refused\): start it"):
            connected(RayOptions(address=address)).__enter__()


@pytest.mark.slow
def test_a_ray_of_this_machine_is_started_without_a_home_folder(tmp_path: Path) -> None:
    started = (
        "from ray_jobs.cluster import connected; from schemas.corpus.operations import RayOptions\n"
        "with connected(RayOptions(num_cpus=1)): pass"
    )
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    home = tmp_path / "a file, and no folder"
    home.touch()
    process = subprocess.run(
        [sys.executable, "-c", started],
        env=mine | {"HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    assert "Token authentication" not in process.stderr


@pytest.mark.slow
def test_a_process_that_imported_ray_before_starts_one(tmp_path: Path) -> None:
    started = (
        "import ray; from ray_jobs.cluster import connected; from schemas.corpus.operations import RayOptions\n"
        "with connected(RayOptions(num_cpus=1)): pass"
    )
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    subprocess.run([sys.executable, "-c", started], env=mine | {"HOME": str(tmp_path)}, check=True, timeout=300)


@pytest.mark.parametrize(
    ("gpus", "workers", "available", "expected"),
    [
        ("auto", None, 0, (3, 0.0)),
        ("auto", None, 4, (4, 1.0)),
        ("auto", 2, 4, (2, 1.0)),
        (1.0, None, 0, (1, 1.0)),
        (1.0, 4, 0, (4, 1.0)),
        (0.5, None, 2, (4, 0.5)),
        (2.0, None, 1, (1, 2.0)),
        (0.0, None, 4, (3, 0.0)),
    ],
)
def test_gpus_are_asked_for_though_the_cluster_has_yet_to_start_them(
    gpus: float | Literal["auto"],
    workers: int | None,
    available: int,
    expected: tuple[int, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 8.0} | ({"GPU": float(available)} if available else {}))
    assert actors(gpus, workers, 3) == expected


@pytest.mark.parametrize(
    ("runtime_env", "why"),
    [
        ({"working_dir": "."}, "bring code as py_modules"),
        ({"env_vars": {"AWS_SECRET_ACCESS_KEY": "secret"}}, "where the cluster's nodes start"),
    ],
)
def test_a_runtime_environment_holds_no_secret_and_no_folder(runtime_env: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RayOptions.model_validate({"runtime_env": runtime_env})
