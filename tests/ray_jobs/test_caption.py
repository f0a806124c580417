"""A local captioner as an actor of Ray."""

from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from ray_jobs.caption import Calls, CaptionRequest, caption
from schemas.corpus.models import ModelEntry
from schemas.corpus.operations import RayOptions
from schemas.ids import figure_file
from tests.manuals import picture


@pytest.mark.slow
def test_an_actor_describes_each_picture(vlm_folder: Path, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for number in range(2):
        store.put(figure_file(f"figure{number}"), picture(number))
    options = ModelEntry.model_validate(
        {"kind": "local", "model": str(vlm_folder), "revision": "1", "max_tokens": 4, "gpus": 0, "workers": 1}
    )
    requests = [CaptionRequest(f"r{number}", "Describe it.", f"figure{number}") for number in range(2)]
    groups = caption(requests, "vlm", options, store.root, RayOptions(num_cpus=1), Calls())
    outcomes = [outcome for group in groups for outcome in group]
    assert all(outcome.failure is None for outcome in outcomes), outcomes
    assert {outcome.row_id for outcome in outcomes if outcome.value is not None} == {"r0", "r1"}
