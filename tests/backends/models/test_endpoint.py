"""What becomes of a request where the server, or what the corpus file says of it, is not as it should be."""

import io
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import numpy as np
import pytest
from PIL import Image

from backends.models import endpoint_calls
from backends.models.devices import Outcome
from backends.models.endpoint import CHARACTERS_A_TOKEN, Endpoint
from backends.models.endpoint_calls import FAILURES_IN_A_ROW, LONGEST_HOLD_S, LONGEST_WAIT_S
from schemas.corpus.models import EndpointOptions, ModelEntry
from schemas.errors import BadInputError, FailureCode, TransientError, UserError
from schemas.models import Message, Reply, Request
from tests.endpoint_server import Call, EndpointServer, Reaction, answer, cut, drip, hang, status, text, whole

KEY = "sk-a-key-that-nobody-may-see"


class Clock(endpoint_calls.Clock):
    """Waits take no time, and are counted."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLM_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")


def made(
    server: EndpointServer, clock: Clock | None = None, *, options: dict[str, Any] | None = None, **settings: Any
) -> Endpoint:
    at = EndpointOptions(url=server.url, **(options or {}))
    captioner = ModelEntry(**{"kind": "vlm", "model": "tiny", "revision": "1", **settings}, endpoint=at)
    model = Endpoint("models.shapes", captioner)
    model.clock = clock or Clock()
    return model


def asked(model: Endpoint, *prompts: str, picture: bytes | None = None) -> dict[str, Outcome]:
    return dict(model.replies(Request.of(prompt, prompt, picture) for prompt in prompts))


def streamed(model: Endpoint, prompt: str = "it") -> tuple[list[str], Outcome]:
    """Return the words of a stream as they come, and its outcome."""
    *words, outcome = model.stream(Request.of(prompt, prompt))
    assert not isinstance(outcome, str)
    return [word for word in words if isinstance(word, str)], outcome


Ask = Callable[..., dict[str, Outcome]]


@pytest.fixture(params=["at once", "streamed"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Both ways to ask, where a request must end alike."""
    if request.param == "at once":
        return asked
    return lambda model, *prompts: {prompt: streamed(model, prompt)[1] for prompt in prompts}


def png(width: int, height: int, mode: str = "RGB", encoding: str = "PNG") -> bytes:
    noise = np.random.default_rng(0).integers(0, 255, (height, width, len(mode)), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise.squeeze(), mode).save(buffer, encoding)
    return buffer.getvalue()


def message(outcome: Outcome) -> str:
    assert not isinstance(outcome, Reply)
    return outcome.message


RETRIED: dict[str, tuple[Reaction, str, int]] = {
    "500": (status(500), "server_errors", 1),
    "503": (status(503), "server_errors", 1),
    "408": (status(408), "server_errors", 1),
    "409": (status(409), "server_errors", 1),
    "429": (status(429), "rate_limits", 1),
    "half an answer": (cut(after=0), "broken_connections", 2),
    "invalid JSON": (text('{"choices": [{"mess'), "bad_answers", 2),
    "a page of a proxy": (text("<html>busy</html>"), "bad_answers", 2),
    "events of a stream": (text('data: {"choices": []}\n\n'), "bad_answers", 2),
    "no choice": (whole({"choices": [], "model": "tiny"}), "bad_answers", 2),
    "choices that are none": (whole({"choices": [{}]}), "bad_answers", 2),
    "an error called success": (whole({"error": {"message": "busy"}}), "bad_answers", 2),
}


@pytest.mark.parametrize(("reaction", "fault", "paid"), RETRIED.values(), ids=RETRIED)
def test_what_may_succeed_is_tried_again_and_counted(
    ask: Ask, endpoint: EndpointServer, clock: Clock, reaction: Reaction, fault: str, paid: int
) -> None:
    endpoint.script(reaction)
    model = made(endpoint, clock)
    outcome = ask(model, "what is it?")["what is it?"]
    assert isinstance(outcome, Reply)
    assert outcome.calls == model.usage.calls == paid
    assert model.faults == {fault: 1}
    assert len(endpoint.calls) == 2
    assert clock.passed > 0


@pytest.mark.parametrize(("reaction", "fault", "paid"), RETRIED.values(), ids=RETRIED)
def test_when_all_tries_are_spent_it_may_succeed_another_time(
    ask: Ask, endpoint: EndpointServer, reaction: Reaction, fault: str, paid: int
) -> None:
    endpoint.replies = lambda _: reaction
    model = made(endpoint, options={"retries": 2})
    outcome = ask(model, "it")["it"]
    assert type(outcome) is TransientError
    assert outcome.message.startswith("models.shapes: http://127.0.0.1:")
    assert model.faults == {fault: 3}
    assert model.usage.calls == 3 * (paid - 1)
    assert len(endpoint.calls) == 3


def test_a_call_that_takes_too_long_is_tried_again(ask: Ask, endpoint: EndpointServer, clock: Clock) -> None:
    endpoint.script(hang())
    model = made(endpoint, clock, options={"timeout_s": 0.2, "retries": 20})
    outcome = ask(model, "it")["it"]
    assert isinstance(outcome, Reply)
    # A busy machine may be late with the second answer too, and with the third; one in time is enough.
    assert model.faults == {"timeouts": outcome.calls - 1}
    assert len(endpoint.calls) == outcome.calls > 1


def test_an_answer_that_comes_in_drops_is_bounded_as_a_whole(endpoint: EndpointServer) -> None:
    endpoint.script(drip())
    model = made(endpoint, options={"timeout_s": 0.5, "retries": 0})
    assert "no answer within 0.5 s" in message(asked(model, "it")["it"])


def test_where_no_server_listens_nothing_was_paid(ask: Ask, endpoint: EndpointServer) -> None:
    model = made(endpoint)
    endpoint.close()
    assert "the connection failed" in message(ask(model, "it")["it"])
    assert model.faults == {"broken_connections": 5}
    assert model.usage.calls == 0


@pytest.mark.parametrize("headers", [{"Retry-After": "70"}, {"Retry-After-Ms": "70000", "Retry-After": "1"}])
def test_no_call_goes_out_before_the_server_allows_it(
    ask: Ask, endpoint: EndpointServer, clock: Clock, headers: dict[str, str]
) -> None:
    endpoint.script(status(429, headers=headers))
    assert isinstance(ask(made(endpoint, clock, options={"concurrency": 1}), "it")["it"], Reply)
    assert 70 <= clock.passed < 72


def test_a_server_may_name_the_moment(endpoint: EndpointServer, clock: Clock) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=LONGEST_HOLD_S - 1)
    endpoint.script(status(503, headers={"Retry-After": format_datetime(moment, usegmt=True)}))
    assert isinstance(asked(made(endpoint, clock), "it")["it"], Reply)
    assert 2 < clock.passed < LONGEST_HOLD_S


@pytest.mark.parametrize("value", ["soon", "nan", "-5", ""])
def test_a_wait_that_is_none_is_not_waited_for(endpoint: EndpointServer, value: str) -> None:
    endpoint.script(status(503, headers={"Retry-After": value}))
    assert isinstance(asked(made(endpoint), "it")["it"], Reply)


@pytest.mark.parametrize(
    "reaction",
    [
        status(429, headers={"Retry-After": str(LONGEST_HOLD_S + 1)}),
        status(429, "You exceeded your current quota", code="insufficient_quota"),
        status(402, "Insufficient balance"),
    ],
)
def test_a_server_that_gives_nothing_more_is_left_alone(
    ask: Ask, endpoint: EndpointServer, clock: Clock, reaction: Reaction
) -> None:
    endpoint.script("Words.", reaction)
    model = made(endpoint, clock, options={"concurrency": 1})
    outcomes = ask(model, "a", "b", "c", "d")
    assert isinstance(outcomes["a"], Reply)
    assert [type(outcomes[name]) for name in "bcd"] == [TransientError] * 3
    assert len(endpoint.calls) == 2
    assert type(ask(model, "e")["e"]) is TransientError
    assert len(endpoint.calls) == 2
    assert clock.passed <= 1


def test_a_dead_server_costs_a_few_requests_not_all(endpoint: EndpointServer) -> None:
    endpoint.replies = lambda _: status(500)
    model = made(endpoint, options={"concurrency": 1, "retries": 1})
    outcomes = asked(model, *map(str, range(500)))
    assert len(outcomes) == 500
    assert {type(outcome) for outcome in outcomes.values()} == {TransientError}
    assert len(endpoint.calls) == 2 * FAILURES_IN_A_ROW
    assert "20 requests in a row failed" in message(outcomes["499"])
    assert type(asked(model, "later")["later"]) is TransientError
    assert len(endpoint.calls) == 2 * FAILURES_IN_A_ROW


@pytest.mark.parametrize("between", [answer("Words."), answer("")])
def test_failures_that_are_not_in_a_row_end_nothing(endpoint: EndpointServer, between: Reaction) -> None:
    turns = iter(range(1000))
    endpoint.replies = lambda _: status(500) if next(turns) % FAILURES_IN_A_ROW else between
    outcomes = asked(made(endpoint, options={"concurrency": 1, "retries": 0}), *map(str, range(60)))
    assert sum(not isinstance(outcome, TransientError) for outcome in outcomes.values()) == 3
    assert len(endpoint.calls) == 60


REFUSED: dict[str, tuple[Reaction, str, str]] = {
    "a refusal": (answer(None, refusal="I can't help with that."), "refusals", "I can't help with that"),
    "a content filter": (answer("", finish_reason="content_filter"), "refusals", "content filter"),
    "an empty string": (answer(""), "empty_answers", "answer is empty"),
    "spaces": (answer(" \n"), "empty_answers", "answer is empty"),
    "null": (answer(None), "empty_answers", "answer is empty"),
    "only thoughts": (answer("", finish_reason="length"), "empty_answers", "max_tokens"),
    "400": (status(400, "the picture is too small"), "rejected_requests", "the picture is too small"),
    "413": (status(413, "too large"), "rejected_requests", "too large"),
    "422": (status(422, "no"), "rejected_requests", "422"),
}


@pytest.mark.parametrize(("reaction", "fault", "why"), REFUSED.values(), ids=REFUSED)
def test_what_would_end_alike_is_not_paid_for_again(
    ask: Ask, endpoint: EndpointServer, reaction: Reaction, fault: str, why: str
) -> None:
    endpoint.replies = lambda call: reaction if call.prompt == "b" else "Words."
    model = made(endpoint)
    outcomes = ask(model, "a", "b", "c")
    assert isinstance(outcomes["a"], Reply)
    assert isinstance(outcomes["c"], Reply)
    assert isinstance(outcomes["b"], BadInputError)
    assert outcomes["b"].code is FailureCode.MODEL_FAILED
    assert why in outcomes["b"].message
    assert model.faults == {fault: 1}
    assert len(endpoint.calls) == 3


def test_tokens_of_what_came_to_nothing_are_counted(endpoint: EndpointServer) -> None:
    endpoint.script(answer("one two three", model="other"), answer("", finish_reason="content_filter"))
    model = made(endpoint, options={"concurrency": 1})
    outcomes = asked(model, "a b", "c", "d")
    assert isinstance(outcomes["d"], Reply)
    assert (model.usage.calls, model.usage.input_tokens, model.usage.output_tokens) == (
        3,
        4,
        3 + outcomes["d"].output_tokens,
    )


@pytest.mark.parametrize(
    ("model_name", "revision", "answered"),
    [
        ("gpt-4o", "1", "gpt-4o-2024-08-06"),
        ("gemini-1.5-flash", "1", "gemini-1.5-flash-001"),
        ("mistral-small-latest", "1", "mistral-small-2503"),
        ("qwen2.5vl", "1", "qwen2.5vl:latest"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "1", "qwen2.5-vl-7b-instruct"),
        ("our-deployment", "gpt-4o-2024-08-06", "gpt-4o-2024-08-06"),
        ("our-deployment", "gpt-4o", "gpt-4o-2024-08-06"),
        ("latest", "1", "latest"),
    ],
)
def test_a_date_behind_a_name_is_the_same_model(
    ask: Ask, endpoint: EndpointServer, model_name: str, revision: str, answered: str
) -> None:
    endpoint.replies = lambda _: answer("Words.", model=answered)
    outcome = ask(made(endpoint, model=model_name, revision=revision), "it")["it"]
    assert isinstance(outcome, Reply)
    assert outcome.model == answered


@pytest.mark.parametrize(
    ("model_name", "answered"),
    [("gpt-4o", "gpt-4o-mini"), ("gpt-4o", "gpt-4"), ("a", "b"), ("qwen2.5-vl-7b", "qwen2.5-vl-72b")],
)
def test_words_of_another_model_are_taken_and_told_once(
    ask: Ask, endpoint: EndpointServer, caplog: pytest.LogCaptureFixture, model_name: str, answered: str
) -> None:
    endpoint.replies = lambda _: answer("Words.", model=answered)
    model = made(endpoint, model=model_name, options={"concurrency": 1})
    outcomes = ask(model, "a", "b")
    for outcome in outcomes.values():
        assert isinstance(outcome, Reply)
        assert (outcome.text, outcome.model) == ("Words.", answered)
        assert f"asked for {model_name!r} and {answered!r} answered" in outcome.note
    assert model.faults == {"other_models": 2}
    assert caplog.text.count("answered") == 1


def test_an_answer_that_stopped_at_its_limit_is_not_complete(ask: Ask, endpoint: EndpointServer) -> None:
    endpoint.script(answer("It shows a", finish_reason="length"), "It shows a tree.")
    outcomes = ask(made(endpoint, options={"concurrency": 1}), "a", "b")
    assert [outcome.complete for outcome in outcomes.values() if isinstance(outcome, Reply)] == [False, True]


def test_a_mistake_in_the_corpus_file_ends_it_after_what_was_under_way(endpoint: EndpointServer) -> None:
    both_there = threading.Barrier(2, timeout=60)

    def replies(call: Call) -> str | Reaction:
        both_there.wait()
        if call.prompt == "a":
            return status(401, f"Incorrect API key provided: {KEY}")
        while model._ended is None:
            time.sleep(0.001)
        return "Words."

    endpoint.replies = replies
    model = made(endpoint, options={"concurrency": 2, "api_key_env": "VLM_KEY"})
    outcomes: list[tuple[str, Outcome]] = []
    waiting = iter("abcdef")
    with pytest.raises(UserError, match=r"models\.shapes\.endpoint\.api_key_env: http.* refuses the API key in VLM_KEY"):
        outcomes.extend(model.replies(Request.of(name, name) for name in waiting))
    assert [name for name, _ in outcomes] == ["b"]
    assert [*waiting] == [*"cdef"], "no more requests are taken"
    endpoint.replies = lambda _: "Words."
    assert isinstance(asked(model, "c")["c"], Reply), "the mistake is corrected"


@pytest.mark.parametrize(
    ("reaction", "endless_s"), [(status(500), 0.0), (status(429, headers={"Retry-After": "540"}), LONGEST_WAIT_S)]
)
def test_who_waits_to_try_again_does_not_outlast_the_end(
    endpoint: EndpointServer, reaction: Reaction, endless_s: float
) -> None:
    waits, both_asked = threading.Event(), threading.Event()

    class Endless(Clock):
        async def sleep(self, seconds: float) -> None:
            if seconds > endless_s:
                waits.set()
                await anyio.sleep_forever()

    def replies(call: Call) -> Reaction:
        if call.prompt == "a":
            assert both_asked.wait(60), "a call that begins later waits, too"
            return reaction
        both_asked.set()
        assert waits.wait(60)
        return status(404)

    endpoint.replies = replies
    with pytest.raises(UserError, match="knows no model 'tiny'"):
        asked(made(endpoint, Endless(), options={"concurrency": 2}), "a", "b")


@pytest.mark.parametrize(
    ("reaction", "pattern"),
    [
        (status(401), r"endpoint\.api_key_env: .* wants an API key \(401\)"),
        (status(403), r"endpoint\.api_key_env: .* wants an API key \(403\)"),
        (status(404, "The model `tiny` does not exist"), r"knows no model 'tiny', or endpoint\.url .* does not exist"),
        (status(405), r"endpoint\.url: .* answered 405"),
        (
            status(400, "Unsupported value", code="unsupported_value", param="temperature"),
            r"shapes\.temperature: .*Unsupported",
        ),
    ],
)
def test_a_setting_that_fits_no_request_is_the_users(
    ask: Ask, endpoint: EndpointServer, reaction: Reaction, pattern: str
) -> None:
    endpoint.replies = lambda _: reaction
    with pytest.raises(UserError, match=pattern):
        ask(made(endpoint), "a")


def test_a_wrong_path_is_named(endpoint: EndpointServer) -> None:
    endpoint.url = endpoint.url.removesuffix("/v1")
    with pytest.raises(UserError, match=r"endpoint\.url isn't its address up to the version"):
        asked(made(endpoint), "a")


def test_a_server_that_rejects_everything_is_a_mistake_of_the_corpus_file(endpoint: EndpointServer) -> None:
    endpoint.replies = lambda _: status(400, "this model takes no images")
    with pytest.raises(UserError, match=r"rejects every request.*takes no images"):
        asked(made(endpoint), *map(str, range(100)))
    assert len(endpoint.calls) < 40


def test_many_rejected_pictures_are_their_own_fault_where_others_are_answered(endpoint: EndpointServer) -> None:
    endpoint.replies = lambda call: "Words." if call.prompt == "0" else status(400)
    outcomes = asked(made(endpoint, options={"concurrency": 1}), *map(str, range(50)))
    assert sum(isinstance(outcome, BadInputError) for outcome in outcomes.values()) == 49


def test_models_that_think_are_asked_by_the_names_they_know(ask: Ask, endpoint: EndpointServer) -> None:
    def replies(call: Call) -> str | Reaction:
        for unknown in ("max_tokens", "top_p"):
            if unknown in call.json:
                return status(400, f"Unsupported parameter: {unknown}", code="unsupported_parameter", param=unknown)
        return "Words."

    endpoint.replies = replies
    model = made(endpoint, max_tokens=77, temperature=1)
    outcomes = ask(model, *map(str, range(20)))
    assert all(isinstance(outcome, Reply) for outcome in outcomes.values())
    assert model.faults == {}
    assert model.usage.calls == 20
    last = endpoint.calls[-1].json
    assert last["max_completion_tokens"] == 77
    assert "max_tokens" not in last
    assert "top_p" not in last


def test_the_parameters_are_sent(endpoint: EndpointServer) -> None:
    asked(made(endpoint, temperature=0.7, top_p=0.95, max_tokens=300), "what?")
    sent = endpoint.calls[0].json
    assert (sent["model"], sent["temperature"], sent["top_p"], sent["max_tokens"]) == ("tiny", 0.7, 0.95, 300)


@pytest.mark.parametrize(("variable", "sent"), [("VLM_KEY", f"Bearer {KEY}"), (None, "Bearer none")])
def test_the_key_is_the_one_named_or_none(ask: Ask, endpoint: EndpointServer, variable: str | None, sent: str) -> None:
    ask(made(endpoint, options={"api_key_env": variable}), "a")
    assert endpoint.calls[0].headers["authorization"] == sent


@pytest.mark.parametrize("value", ["", " ", "two words", "naïve", "line\nbreak"])
def test_a_key_that_is_none_is_named_not_shown(
    endpoint: EndpointServer, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("VLM_KEY", value)
    with pytest.raises(UserError, match=r"models\.shapes\.endpoint\.api_key_env: .*VLM_KEY") as error:
        made(endpoint, options={"api_key_env": "VLM_KEY"})
    assert not value.strip() or value not in error.value.message


@pytest.mark.parametrize("code", [400, 401, 403, 404, 418, 429, 500])
def test_no_message_holds_the_key(ask: Ask, endpoint: EndpointServer, code: int) -> None:
    endpoint.replies = lambda _: status(code, f"your key {KEY} is not liked")
    model = made(endpoint, options={"api_key_env": "VLM_KEY", "retries": 0})
    try:
        error_text = message(ask(model, "a")["a"])
    except UserError as error:
        error_text = error.message
    assert KEY not in error_text


def test_as_many_calls_run_as_may_and_no_more_is_taken(endpoint: EndpointServer) -> None:
    all_there = threading.Barrier(4, timeout=60)
    numbers = []

    def requests() -> Iterator[Request]:
        for number in range(12):
            numbers.append(number)
            yield Request.of(str(number), str(number))

    def replies(_: Call) -> str:
        all_there.wait()
        return "Words."

    endpoint.replies = replies
    model = made(endpoint, options={"concurrency": 4})
    for reply_count, _ in enumerate(model.replies(requests()), start=1):
        assert len(numbers) <= reply_count + 3
    assert len(numbers) == 12
    assert endpoint.at_once == 4


def test_who_makes_requests_can_stop(endpoint: EndpointServer) -> None:
    model = made(endpoint, options={"concurrency": 2})
    names: list[str] = []

    def requests() -> Iterator[Request]:
        number = 0
        while model.usage.calls < 5:
            yield Request.of(str(number), str(number))
            number += 1

    names.extend(name for name, _ in model.replies(requests()))
    assert len(names) == len(endpoint.calls) <= 5 + 2


def test_who_asks_may_stop_listening(endpoint: EndpointServer) -> None:
    endpoint.replies = lambda call: hang() if call.prompt != "0" else "Words."
    answers = made(endpoint, options={"concurrency": 3}).replies(
        Request.of(str(number), str(number)) for number in range(9)
    )
    assert next(iter(answers))[0] == "0"
    answers.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if "portal" in thread.name]


def test_a_mistake_of_the_caller_is_not_hidden(endpoint: EndpointServer) -> None:
    endpoint.replies = lambda call: hang()

    def requests() -> Iterator[Request]:
        yield Request.of("a", "a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(made(endpoint, options={"concurrency": 2}).replies(requests()))


def test_a_picture_that_fits_is_sent_as_it_is(endpoint: EndpointServer) -> None:
    for picture in (png(60, 40), png(60, 40, "L"), png(60, 40, encoding="JPEG")):
        asked(made(endpoint), "a", picture=picture)
        assert endpoint.pictures[-1] == picture


@pytest.mark.parametrize(("size", "sent"), [((100, 1000), (30, 300)), ((1000, 100), (300, 30)), ((3000, 2), (300, 1))])
def test_a_larger_picture_keeps_its_ratio(endpoint: EndpointServer, size: tuple[int, int], sent: tuple[int, int]) -> None:
    for encoding in ("PNG", "JPEG"):
        asked(made(endpoint, max_side_px=300), "a", picture=png(*size, encoding=encoding))
        image = Image.open(io.BytesIO(endpoint.pictures[-1]))
        assert (image.size, image.format) == (sent, encoding)


def test_what_is_transparent_is_white_to_the_model(endpoint: EndpointServer) -> None:
    buffer = io.BytesIO()
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(buffer, "PNG")
    asked(made(endpoint), "a", picture=buffer.getvalue())
    assert Image.open(io.BytesIO(endpoint.pictures[0])).getpixel((0, 0)) == (255, 255, 255)


def test_a_chat_is_sent_with_its_roles_and_each_messages_pictures_before_its_words(endpoint: EndpointServer) -> None:
    pictures = [png(4, side) for side in (4, 5, 6)]
    chat = (
        Message("system", "Cite."),
        Message("user", "Which?", (pictures[0], pictures[1])),
        Message("assistant", "The first."),
        Message("user", "And here?", (pictures[2],)),
    )
    list(made(endpoint).replies([Request("a", chat)]))
    (call,) = endpoint.calls
    assert call.pictures == pictures
    sent_messages = [
        (
            sent_message["role"],
            sent_message["content"]
            if isinstance(sent_message["content"], str)
            else [part["type"] for part in sent_message["content"]],
        )
        for sent_message in call.json["messages"]
    ]
    assert sent_messages == [
        ("system", "Cite."),
        ("user", ["image_url", "image_url", "text"]),
        ("assistant", "The first."),
        ("user", ["image_url", "text"]),
    ]
    assert call.prompt == "Cite.\nWhich?\nThe first.\nAnd here?"


def test_one_picture_that_cannot_be_decoded_fails_the_chat(endpoint: EndpointServer) -> None:
    (outcome,) = made(endpoint).stream(Request("a", (Message("user", "it", (png(4, 4), b"no picture")),)))
    assert isinstance(outcome, BadInputError)
    assert outcome.code is FailureCode.IMAGE_REJECTED
    assert endpoint.calls == []


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["The <im", "age:1", "> part."], ["The <im", "age:1", "> part."]),
        (["\n ", " One", " \n", "\n", "two", ".\n", " "], ["One", " \n\ntwo", "."]),
        (["", "é", "", "\U0001f600"], ["é", "\U0001f600"]),
    ],
)
def test_words_come_as_the_server_splits_them_without_white_space_around(
    endpoint: EndpointServer, pieces: list[str], words: list[str]
) -> None:
    endpoint.script(answer("".join(pieces), pieces=pieces))
    model = made(endpoint, temperature=0.5)
    streamed_words, outcome = streamed(model, "a b c")
    assert streamed_words == words
    assert isinstance(outcome, Reply)
    assert (outcome.text, outcome.complete, outcome.model) == ("".join(words), True, "tiny")
    assert (outcome.calls, outcome.input_tokens) == (1, 3)
    assert model.usage.output_tokens == outcome.output_tokens == len("".join(pieces).split())
    assert endpoint.calls[0].json["temperature"] == 0.5


def test_words_come_before_the_reply_ends_and_closing_ends_the_call(endpoint: EndpointServer) -> None:
    endpoint.script(hang(after=2))
    model = made(endpoint)
    words = model.stream(Request.of("a", "a"))
    assert (next(words), next(words)) == ("Half", " of")
    words.close()
    endpoint.wait_until_gone()
    assert not [thread for thread in threading.enumerate() if "portal" in thread.name]
    assert model.usage.calls == 1
    assert isinstance(streamed(model)[1], Reply)


@pytest.mark.parametrize("after", [0, 1])
def test_a_call_ends_when_nobody_waits_any_more(endpoint: EndpointServer, after: int) -> None:
    endpoint.script(hang(after=after))
    model = made(endpoint)
    *words, outcome = model.stream(Request.of("a", "a"), stopped=lambda: bool(endpoint.calls))
    endpoint.wait_until_gone()
    assert isinstance(outcome, TransientError)
    assert len(words) <= after
    assert model.usage.calls == 1
    assert len(endpoint.calls) == 1


@pytest.mark.parametrize(
    ("reaction", "fault", "why"),
    [
        (cut(after=2), "broken_connections", "the connection failed"),
        (hang(after=2), "timeouts", "no answer within 0.5 s"),
    ],
)
def test_what_breaks_after_a_word_is_not_tried_again(
    endpoint: EndpointServer, reaction: Reaction, fault: str, why: str
) -> None:
    endpoint.script(reaction)
    model = made(endpoint, options={"timeout_s": 0.5})
    words, outcome = streamed(model)
    assert words == ["Half", " of"]
    assert type(outcome) is TransientError
    assert why in outcome.message
    assert model.faults == {fault: 1}
    assert (len(endpoint.calls), model.usage.calls) == (1, 1)


CHUNK = {"model": "tiny", "choices": [{"index": 0, "delta": {"content": "One "}}]}


@pytest.mark.parametrize(
    ("event", "fault", "why"),
    [
        ({"error": {"message": "CUDA out of memory"}}, "server_errors", "CUDA out of memory"),
        ({"choices": "none"}, "bad_answers", "isn't a chat completion"),
        ("words", "bad_answers", "isn't a chat completion"),
        ({"choices": [], "model": "tiny"}, "bad_answers", "ends before the reply does"),
    ],
)
def test_a_stream_that_goes_wrong_after_a_word_keeps_its_words(
    endpoint: EndpointServer, event: object, fault: str, why: str
) -> None:
    endpoint.script(text(f"data: {json.dumps(CHUNK)}\n\ndata: {json.dumps(event)}\n\n"))
    model = made(endpoint)
    words, outcome = streamed(model)
    assert words == ["One"]
    assert type(outcome) is TransientError
    assert why in outcome.message
    assert model.faults == {fault: 1}
    assert model.usage.calls == 1


def test_a_filter_that_ends_a_stream_is_a_refusal_after_its_words(endpoint: EndpointServer) -> None:
    endpoint.script(answer("One two", finish_reason="content_filter"))
    words, outcome = streamed(made(endpoint))
    assert words == ["One", " two"]
    assert isinstance(outcome, BadInputError)


def test_words_of_another_model_are_streamed_and_the_reply_says_so(endpoint: EndpointServer) -> None:
    endpoint.script(answer("One two", model="other"))
    words, outcome = streamed(made(endpoint))
    assert words == ["One", " two"]
    assert isinstance(outcome, Reply)
    assert "'other' answered" in outcome.note


def test_a_server_that_never_stops_is_cut(endpoint: EndpointServer) -> None:
    endpoint.script(answer("", pieces=itertools.repeat("word ")), answer("", pieces=itertools.repeat("")))
    model = made(endpoint, max_tokens=10)
    words, outcome = streamed(model)
    assert isinstance(outcome, Reply)
    assert not outcome.complete
    assert outcome.text == "".join(words)
    assert 10 * CHARACTERS_A_TOKEN - 5 < len(outcome.text) <= 10 * CHARACTERS_A_TOKEN
    endpoint.wait_until_gone()
    words, silent = streamed(model)
    assert (words, type(silent)) == ([], BadInputError)
    endpoint.wait_until_gone()


@pytest.mark.parametrize(
    "reaction",
    [
        status(400, "Unrecognized request argument supplied: stream_options"),
        status(422, "Extra inputs are not permitted", param="stream_options"),
        Reaction(422, json.dumps({"detail": [{"loc": ["body", "stream_options"], "msg": "no"}]}).encode()),
    ],
)
def test_a_server_that_knows_no_stream_options_is_asked_without(endpoint: EndpointServer, reaction: Reaction) -> None:
    endpoint.replies = lambda call: reaction if "stream_options" in call.json else "One two"
    model = made(endpoint)
    assert (streamed(model)[0], streamed(model)[0]) == (["One", " two"], ["One", " two"])
    assert model.faults == {}
    assert (model.usage.calls, model.usage.input_tokens, model.usage.output_tokens) == (2, 0, 0)
    assert len(endpoint.calls) == 3
