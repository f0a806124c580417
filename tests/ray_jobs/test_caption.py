"""A local captioner as an actor of Ray, with worked examples before each request."""

from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from ray_jobs.caption import Calls, CaptionRequest, caption
from schemas.corpus.models import ModelEntry
from schemas.corpus.operations import RayOptions
from schemas.ids import figure_file
from schemas.models import Message, Reply
from tests.manuals import picture


@pytest.mark.slow
def test_an_actor_reads_the_examples_before_each_picture(vlm_folder: Path, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for number in range(2):
        store.put(figure_file(f"figure{number}"), picture(number))
    options = ModelEntry.model_validate(
        {"kind": "local", "model": str(vlm_folder), "revision": "1", "max_tokens": 4, "gpus": 0, "workers": 1}
    )
    requests = [CaptionRequest(f"r{number}", "Describe it.", f"figure{number}") for number in range(2)]
    examples = (Message("user", "Describe it.", (picture(9),)), Message("assistant", "A pump.", ()))

    def replies(*turns: Message) -> dict[str, Reply]:
        groups = caption(requests, "vlm", options, store.root, RayOptions(num_cpus=1), Calls(), turns)
        outcomes = [outcome for group in groups for outcome in group]
        assert all(outcome.failure is None for outcome in outcomes), outcomes
        return {outcome.row_id: outcome.value for outcome in outcomes if outcome.value is not None}

    alone, with_examples = replies(), replies(*examples)
    assert alone.keys() == with_examples.keys() == {"r0", "r1"}
    assert all(with_examples[name].input_tokens > alone[name].input_tokens for name in alone)
