"""A Ray that can't be had is one line that says so."""

import pytest
import ray

from ray_jobs.cluster import connected
from schemas.corpus import RayOptions
from schemas.errors import TransientError


def test_a_ray_that_is_not_up_in_time_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(**_options: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(TransientError, match=r"^Ray can't be started: The current node timed out during startup\.$"):
        connected(RayOptions()).__enter__()
