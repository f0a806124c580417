"""What a model wrote, beside the passages that it was sent."""

import json
from pathlib import Path

import pytest

from schemas.answers import TextPart
from schemas.tags import TagTemplate
from tasks.answering.compose import answer_prompts, compose
from tasks.answering.generate import with_support
from tasks.answering.read_reply import ReplyReader
from tests.tasks.answering.hits import made_hit

PASSAGES = ["The pump opens at 3 bar. It does not need oil.", "The winch lifts 300 kg by its steel rope."]
QUESTION = "At which pressure does the Kestrel pump open?"


@pytest.mark.parametrize(
    ("text", "cited", "supported", "unsupported"),
    [
        ("The pump opens at 3 bar.", [1], [1], 0),
        ("The pump opens at 3 bar.", [], [1], 0),
        ("The pump opens at 3 bar.", [2], [1], 0),
        ("The pump opens at 8 bar.", [1], [], 1),
        ("The pump of Meridian opens at 3 bar.", [1], [], 1),
        ("The Kestrel pump opens.", [1], [], 0),
        ("It needs oil.", [1], [], 1),
        ("2. The winch lifts 300 kg.", [2], [2], 0),
        ("That is all.", [], [], 0),
        ("The pressure of the Kestrel pump is 3 bar.", [], [1], 0),
        ("The pressure of the Kestrel pump is 8 bar.", [], [], 1),
    ],
)
def test_citations_come_from_the_passages(text: str, cited: list[int], supported: list[int], unsupported: int) -> None:
    parts, count = with_support([TextPart(text=text, citations=cited)], PASSAGES, QUESTION)
    assert [part.citations for part in parts] == [supported]
    assert count == unsupported


def test_a_question_of_yes_or_no_is_answered_in_its_own_words() -> None:
    answer = TextPart(text="The pump does not need oil.", citations=[1])
    assert with_support([answer], PASSAGES, "Does the pump need oil?") == ([answer], 0)


def test_code_is_not_compared() -> None:
    code = TextPart(text="set_lamp 99", citations=[1], style="code")
    assert with_support([code], PASSAGES, QUESTION) == ([code], 0)


def test_each_sentence_that_cites_nothing_is_compared_alone() -> None:
    parts, count = with_support(
        [TextPart(text="Well. The pump opens at 3 bar. Or at 8?", citations=[])], PASSAGES, QUESTION
    )
    assert [(part.text, part.citations, part.continues) for part in parts if isinstance(part, TextPart)] == [
        ("Well.", [], False),
        ("The pump opens at 3 bar.", [1], True),
        ("Or at 8?", [], True),
    ]
    assert count == 1


QUESTIONS_AND_PASSAGES = {
    "limits": (
        "How are limit switches wired?",
        "Limit switches stop an axis before it leaves its range. "
        "Wire them normally closed, so that a broken wire stops the machine as well. "
        "Each switch needs its own input, or all switches of an axis share one. "
        "After a switch was hit, the override button lets the operator move the axis back by hand.",
    ),
    "start": (
        "How is the machine started?",
        "Before you start the machine, close the guard and check that the emergency stop is released. "
        "Turn the main switch clockwise and wait until the control has booted. "
        "Press the green button to switch the drives on. "
        "The spindle turns only after the axes have been homed.",
    ),
    "filter": (
        "How do I replace the filter?",
        "Close the inlet valve and let the pressure fall. "
        "Unscrew the bowl with the strap wrench and pull the old element out. "
        "Wipe the sealing face with a clean cloth, oil the new ring lightly and fit the element. "
        "Tighten the bowl by hand only. "
        "Dispose of the used element as oily waste.",
    ),
    "accounts": (
        "How do I reconcile an account?",
        "Reconciling compares the transactions in an account with the statement of the bank. "
        "Open the account, choose Reconcile from the Actions menu and enter the ending balance of the statement. "
        "Tick each transaction that the statement lists. "
        "The difference must be zero before you can finish.",
    ),
    "battery": (
        "How is the battery charged?",
        "Charge the battery indoors and keep the charger dry. "
        "The lamp is red during charging and turns green when the battery is full. "
        "A battery that is swollen or has been dropped must not be charged again. "
        "Store it half full if it isn't used for a month.",
    ),
}
INVENTIONS = [
    ("limits", "It is unsafe to use limit switches, so remove them all."),
    ("limits", "Limit switches can be bridged during normal work."),
    ("limits", "Paint the switches before every shift."),
    ("limits", "An axis without switches is faster and safer."),
    ("start", "The machine should be started with bare wet hands."),
    ("start", "The guard may stay open while the spindle turns."),
    ("start", "Ask a colleague to hold the door while it runs."),
    ("start", "Warm the hydraulic tank before the first part is clamped."),
    ("start", "Disconnect the emergency stop to save time."),
    ("filter", "Open the bowl under full pressure to blow the dirt away."),
    ("filter", "Burn the old element in the workshop stove."),
    ("filter", "A hammer loosens a bowl that is stuck."),
    ("filter", "Grease and gasoline clean the sealing surface best."),
    ("accounts", "Delete every transaction that you don't recognise."),
    ("accounts", "The bank refunds any difference automatically."),
    ("accounts", "Send the password to the bank by mail."),
    ("battery", "Puncture a swollen battery to release the gas."),
    ("battery", "The charger works best in the bath."),
    ("battery", "Heat the cells in an oven before charging."),
    ("battery", "Children can replace the charger's fuse themselves."),
]
PARAPHRASES = [
    ("limits", "Wire the switches normally closed, so a broken wire also stops the machine."),
    ("limits", "Every switch can have an input of its own, or the switches of one axis can share an input."),
    ("limits", "The operator can use the override button to move the axis off a switch."),
    ("limits", "They stop the axis before it leaves its range."),
    ("start", "First close the guard and make sure that the emergency stop is released."),
    ("start", "Turn the main switch clockwise, and wait for the control to boot."),
    ("start", "The green button switches on the drives."),
    ("start", "Home the axes, because the spindle turns only after that."),
    ("filter", "Shut the inlet valve and wait until the pressure has fallen."),
    ("filter", "Use a strap wrench to unscrew the bowl, then pull out the old element."),
    ("filter", "Oil the new ring lightly before fitting the element."),
    ("filter", "The bowl is tightened by hand only."),
    ("filter", "The used element is disposed of as oily waste."),
    ("accounts", "Choose Reconcile from the Actions menu and enter the ending balance."),
    ("accounts", "Tick every transaction listed on the statement."),
    ("accounts", "You can finish only when the difference is zero."),
    ("battery", "Charge it indoors with a dry charger."),
    ("battery", "The lamp turns green once the battery is full."),
    ("battery", "Don't charge a battery that is swollen or was dropped."),
    ("battery", "If it isn't used for a month, store the battery half full."),
]


def citations_of(key: str, claim: str) -> list[int]:
    """Return the citations that a claim which cites its passage keeps."""
    question, passage = QUESTIONS_AND_PASSAGES[key]
    (part,), _ = with_support([TextPart(text=claim, citations=[1])], [passage], question)
    return part.citations


def test_no_invention_without_a_number_or_a_name_keeps_its_citation() -> None:
    assert [claim for key, claim in INVENTIONS if citations_of(key, claim)] == []


def test_paraphrases_keep_their_citation() -> None:
    lost = [claim for key, claim in PARAPHRASES if not citations_of(key, claim)]
    assert len(lost) <= 1, lost


@pytest.mark.parametrize("text", ["The pump needs no oil (passage P1).", "It opens at 3 bar (see passages P1 and P2)."])
def test_a_passage_named_in_words_is_cited(text: str) -> None:
    hits = [made_hit(f"e{n}", passage, text=passage) for n, passage in enumerate(PASSAGES)]
    reader = ReplyReader(
        compose("At which pressure?", hits, answer_prompts()["written"], TagTemplate(), context_chars=4_000)
    )
    for character in text:
        reader.feed(character)
    reader.close()
    (part,) = reader.parts
    assert isinstance(part, TextPart)
    assert part.citations[:1] == [1]
    assert "assage" not in part.text


def test_an_item_of_three_sentences_gets_the_citation_of_its_passage() -> None:
    item = TextPart(
        text="- The pump opens at 3 bar. It does not need oil. At 3 bar the pump opens.", citations=[], style="item"
    )
    (part,), _ = with_support([item], PASSAGES, "")
    assert part.citations == [1]


def test_an_abbreviation_before_a_bracket_is_no_marker_of_a_list() -> None:
    text = "It needs a network file system (NFS) and a disk."
    (part,), _ = with_support(
        [TextPart(text=text, citations=[1])], ["A network file system (NFS) and a disk are needed."], ""
    )
    assert part.citations == [1]


def test_a_sentence_that_denies_a_claim_contradicts_it_beside_one_that_is_like_it() -> None:
    passage = "Then the form is filled by the clerk. The form is not yet filled when it arrives."
    (part,), _ = with_support([TextPart(text="The form is filled when it arrives.", citations=[1])], [passage], "")
    assert part.citations == []


def test_of_forty_replies_of_a_small_model_right_ones_stay_and_inventions_go() -> None:
    """SmolLM2-135M-Instruct wrote them at temperature 0; a person judged whether a reply is right, invented or neither."""
    topics = json.loads(Path(__file__).with_name("replies.json").read_text(encoding="utf-8"))
    cited: dict[str, list[bool]] = {"right": [], "invented": [], "neither": []}
    for topic in topics:
        hits = [made_hit(f"e{n}", passage, text=passage) for n, passage in enumerate(topic["passages"])]
        for written in topic["replies"]:
            question = written["question"]
            reader = ReplyReader(compose(question, hits, answer_prompts()["written"], TagTemplate(), context_chars=8_000))
            reader.feed(written["reply"])
            reader.close()
            parts, _ = with_support(reader.parts, topic["passages"], question)
            cited[written["verdict"]].append(any(part.citations for part in parts))
    assert sum(map(len, cited.values())) == 40
    assert cited["right"].count(False) <= 1
    assert cited["invented"].count(True) <= 1


def test_a_row_of_a_table_supports_a_claim_whatever_other_rows_deny() -> None:
    table = "Torque of bolts\n| Bolt | Nm | Grease |\n| --- | --- | --- |\n| M6 | 9 | not needed |\n| M8 | 25 | a little |"
    claim = TextPart(text="The torque of the M8 bolt is 25 Nm.", citations=[1])
    (part,), _ = with_support([claim], [table], "What does the M8 bolt take?")
    assert part.citations == [1]


def test_a_figure_without_words_supports_nothing() -> None:
    claim = TextPart(text="The valve is closed by hand before the test.", citations=[1])
    (part,), count = with_support([claim], [""], "When is it closed?")
    assert isinstance(part, TextPart)
    assert (part.citations, count) == ([], 1)
