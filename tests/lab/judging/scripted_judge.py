"""A judge that reads what it is sent, and is right about the known pairs."""

import io
import json
import re
from collections.abc import Callable, Generator, Sequence
from functools import cache
from importlib.resources import files

import yaml
from PIL import Image, ImageChops

from lab.judging.known_pairs import picture
from schemas.errors import BadInputError, TransientError
from schemas.models import Reply, Request

Said = str | BadInputError | TransientError


class ScriptedJudge:
    """A ``Writer`` that replies by a script; ``requests`` are those that it got."""

    def __init__(self, says: Callable[[str, Sequence[bytes]], Said]) -> None:
        self._says = says
        self.requests: list[Request] = []

    def stream(self, request: Request) -> Generator[str | Reply | BadInputError | TransientError, None, None]:
        self.requests.append(request)
        prompt = "\n".join(message.text for message in request.messages)
        reply = self._says(prompt, [image for message in request.messages for image in message.pictures])
        yield Reply(reply, "scripted") if isinstance(reply, str) else reply


def grade(yes: bool, reason: str = "so it is") -> str:
    return json.dumps({"grade": "YES" if yes else "NO", "reason": reason})


def is_known(prompt: str) -> bool:
    """Return whether a prompt is about a known pair."""
    return any(text in prompt for pair in known() for text in (pair["question"], pair["right"], pair["wrong"]))


def right(prompt: str, pictures: Sequence[bytes]) -> str:
    """Judge a known pair by what the prompt and the pictures hold; what is not sent can't be found wrong."""
    questioned = [index for index, pair in enumerate(known()) if pair["question"] in prompt]
    answered = [index for index, pair in enumerate(known()) if pair["right"] in prompt]
    topic = next(iter((*questioned, *answered)), None)
    faults = {
        "a wrong answer": any(pair["wrong"] in prompt for pair in known()),
        "another answer": any(index != topic for index in answered),
        "another text": any(pair["text"] in prompt for index, pair in enumerate(known()) if index != topic),
        "another picture": any(drawn(image) != topic for image in pictures),
        "no citation": "Are the citations complete?" in prompt and not re.search(r"(?m)^Answer: .*\[P1\]", prompt),
    }
    present = [fault for fault, is_there in faults.items() if is_there]
    return grade(not present, ", ".join(present))


def drawn(sent: bytes) -> int | None:
    """Return which known pair a picture belongs to, however it was encoded."""
    pixels = Image.open(io.BytesIO(sent)).convert("RGB")
    same = (index for index, _ in enumerate(known()) if _is_alike(pixels, index))
    return next(same, None)


def _is_alike(pixels: Image.Image, index: int) -> bool:
    expected = Image.open(io.BytesIO(picture(str(index)))).convert("RGB")
    difference = ImageChops.difference(expected, pixels).getextrema() if expected.size == pixels.size else ()
    return bool(difference) and all(isinstance(band, tuple) and band[1] < 64 for band in difference)


@cache
def known() -> list[dict[str, str]]:
    pairs: list[dict[str, str]] = yaml.safe_load(files("lab.judging").joinpath("known_pairs.yaml").read_text())
    return pairs
