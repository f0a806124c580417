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
        said = self._says(prompt, [each for message in request.messages for each in message.pictures])
        yield Reply(said, "scripted") if isinstance(said, str) else said


def grade(yes: bool, reason: str = "so it is") -> str:
    return json.dumps({"grade": "YES" if yes else "NO", "reason": reason})


def is_known(prompt: str) -> bool:
    """Return whether a prompt is about a known pair."""
    return any(text in prompt for one in known() for text in (one["question"], one["right"], one["wrong"]))


def right(prompt: str, pictures: Sequence[bytes]) -> str:
    """Judge a known pair by what the prompt and the pictures hold; what is not sent can't be found wrong."""
    asked = [place for place, one in enumerate(known()) if one["question"] in prompt]
    answered = [place for place, one in enumerate(known()) if one["right"] in prompt]
    topic = next(iter((*asked, *answered)), None)
    faults = {
        "a wrong answer": any(one["wrong"] in prompt for one in known()),
        "another answer": any(place != topic for place in answered),
        "another text": any(one["text"] in prompt for place, one in enumerate(known()) if place != topic),
        "another picture": any(drawn(each) != topic for each in pictures),
        "no citation": "Are the citations complete?" in prompt and not re.search(r"(?m)^Answer: .*\[P1\]", prompt),
    }
    found = [fault for fault, is_there in faults.items() if is_there]
    return grade(not found, ", ".join(found))


def drawn(sent: bytes) -> int | None:
    """Return which known pair a picture belongs to, however it was encoded."""
    pixels = Image.open(io.BytesIO(sent)).convert("RGB")
    same = (place for place, _ in enumerate(known()) if _is_alike(pixels, place))
    return next(same, None)


def _is_alike(pixels: Image.Image, place: int) -> bool:
    wanted = Image.open(io.BytesIO(picture(str(place)))).convert("RGB")
    difference = ImageChops.difference(wanted, pixels).getextrema() if wanted.size == pixels.size else ()
    return bool(difference) and all(isinstance(band, tuple) and band[1] < 64 for band in difference)


@cache
def known() -> list[dict[str, str]]:
    found: list[dict[str, str]] = yaml.safe_load(files("lab.judging").joinpath("known_pairs.yaml").read_text())
    return found
