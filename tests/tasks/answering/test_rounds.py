"""Retrieval in several rounds."""

from collections.abc import Callable, Sequence

import pytest

from schemas.evidence import Hit
from schemas.versions import Spent
from tasks.answering.rounds import Sufficiency, read_sufficiency, retrieve_in_rounds
from tests.tasks.answering.hits import made_hit

QUESTION = "Which valve leaks, and which torque does its screw take?"


def hit(name: str) -> Hit:
    return made_hit(name, name)


class Agent:
    """Rounds over a scripted index and judge; it keeps what the judge was shown."""

    def __init__(self, found: Sequence[str], verdicts: Sequence[Sufficiency | None], *, may_go_on: int = 99) -> None:
        self.found, self.verdicts = iter(found), iter(verdicts)
        self.shown: list[tuple[tuple[str, ...], str]] = []
        self.calls = 0
        self.allowed = may_go_on

    def run(self, rounds: int = 3) -> tuple[str, list[str], list[bool | None]]:
        hits, finished_rounds = retrieve_in_rounds(
            QUESTION,
            lambda _query: [hit(name) for name in next(self.found)],
            self._judge,
            lambda union: sorted(union, key=lambda one: one.evidence_id),
            rounds=rounds,
            may_go_on=lambda: self.calls < self.allowed,
            spent_so_far=lambda: Spent(calls=self.calls, input_tokens=10 * self.calls),
            clock=lambda: float(self.calls),
        )
        self.done = finished_rounds
        return (
            "".join(one.evidence_id for one in hits),
            [one.query for one in finished_rounds],
            [one.sufficient for one in finished_rounds],
        )

    def _judge(self, queries: Sequence[str], hits: Sequence[Hit]) -> Sufficiency | None:
        self.calls += 1
        self.shown.append((tuple(queries), "".join(retrieved_hit.evidence_id for retrieved_hit in hits)))
        return next(self.verdicts)


def no(query: str = "", missing: str = "") -> Sufficiency:
    return Sufficiency(sufficient=False, missing=missing, query=query)


YES = Sufficiency(sufficient=True)


def test_a_judge_that_is_never_satisfied_ends_after_three_rounds() -> None:
    agent = Agent(["ab", "cd", "ef"], [no("torque"), no("screw")])
    assert agent.run() == ("abcdef", [QUESTION, "torque", "screw"], [False, False, None])
    assert agent.calls == 2, "nobody is asked after the last round"


def test_sufficient_evidence_ends_the_first_round_and_keeps_the_order_of_retrieval() -> None:
    agent = Agent(["ba"], [YES])
    assert agent.run() == ("ba", [QUESTION], [True])


def test_the_judge_sees_every_query_and_all_evidence() -> None:
    agent = Agent(["ab", "bc", "ad"], [no("second"), no("third")])
    agent.run()
    assert agent.shown == [((QUESTION,), "ab"), ((QUESTION, "second"), "abc")]


def test_what_the_first_round_found_survives_better_ranked_rows_of_later_rounds() -> None:
    evidence_ids, _, _ = Agent(["z", "ab", "cd"], [no("second"), no("third")]).run()
    assert set(evidence_ids) == set("zabcd")


def test_a_round_that_finds_nothing_new_is_the_last() -> None:
    agent = Agent(["ab", "ba", "cd"], [no("second"), no("third")])
    assert agent.run() == ("ab", [QUESTION, "second"], [False, None])
    assert [round_.new for round_ in agent.done] == [2, 0]


@pytest.mark.parametrize(
    ("verdict", "queries"),
    [
        (None, [QUESTION]),
        (no(QUESTION), [QUESTION]),
        (no(), [QUESTION]),
        (no(missing="the torque"), [QUESTION, f"{QUESTION} the torque"]),
    ],
)
def test_what_the_next_query_is(verdict: Sufficiency | None, queries: list[str]) -> None:
    assert Agent(["ab", "cd"], [verdict, YES]).run()[1] == queries


def test_one_round_asks_no_judge() -> None:
    agent = Agent(["ab"], [])
    assert agent.run(rounds=1) == ("ab", [QUESTION], [None])


def test_no_judge_is_asked_beyond_the_budget() -> None:
    agent = Agent(["ab", "cd", "ef"], [no("second"), no("third")], may_go_on=1)
    assert agent.run() == ("ab", [QUESTION], [False])


def test_a_round_says_what_it_cost() -> None:
    agent = Agent(["ab", "cd"], [no("second"), YES])
    agent.run()
    assert [(round_.spent.calls, round_.spent.input_tokens, round_.seconds) for round_ in agent.done] == [
        (1, 10, 1.0),
        (1, 10, 1.0),
    ]


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ('{"sufficient": true, "missing": "", "query": ""}', YES),
        ('Sure!\n```json\n{"sufficient": false, "missing": "the torque", "query": "torque of the\\nscrew"}\n```', None),
        ('{"sufficient": "No", "missing": null, "query": "screw"}', no("screw")),
        ('{"broken: 1} {"sufficient": "yes"}', YES),
        ("YES", None),
        ("", None),
        ('{"sufficient": 1}', None),
        ('{"query": "screw"}', None),
        ('{"sufficient": false, "query": "' + "x" * 5000 + '"}', no()),
    ],
)
def test_a_verdict_is_read_out_of_whatever_a_judge_writes(reply: str, verdict: Sufficiency | None) -> None:
    if "torque of the" in reply:
        verdict = no("torque of the screw", "the torque")
    assert read_sufficiency(reply) == verdict


def test_reading_a_verdict_takes_no_longer_than_its_reply() -> None:
    many: Callable[[str], str] = lambda piece: piece * 200_000  # noqa: E731
    assert read_sufficiency(many("{")) is None
    assert read_sufficiency(many('{"a": 1}')) is None
