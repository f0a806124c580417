"""Each kind of random pages is read, with a fixed seed: what a kind misses is an entry of docs/quality.md."""

from collections import Counter
from pathlib import Path

import pytest

from bench.random_pages.__main__ import draw, score
from bench.random_pages.layouts import KINDS

SEED = 62
KINDS_A_DOCUMENT = 3
LEAST_SHARE = 0.9


@pytest.mark.slow
def test_every_kind_of_page_is_read(tmp_path: Path) -> None:
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    names = sorted(KINDS)
    for number, start in enumerate(range(0, len(names), KINDS_A_DOCUMENT)):
        kinds = names[start : start + KINDS_A_DOCUMENT]
        for question, is_right in score(draw(SEED, number, kinds, ""), tmp_path / f"{number}.pdf"):
            asked[question.kind] += 1
            right[question.kind] += is_right
    shares = {kind: f"{right[kind]} of {asked[kind]}" for kind in names if right[kind] < LEAST_SHARE * asked[kind]}
    assert shares == {}
    assert all(asked[kind] for kind in names)
