"""Requests to generative models, and their replies."""

from dataclasses import dataclass
from typing import Literal

Subject = Literal["figure", "page", "text"]
"""What a model describes: a figure, a page's picture, or a row of text or table."""


@dataclass(slots=True)
class Usage:
    """The cost of requests: ``calls`` that may have been charged, and tokens as the model reports them."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, usage: "Usage") -> None:
        """Add another usage."""
        self.calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens

    def since(self, before: "Usage") -> "Usage":
        """Return the usage since an earlier copy of it."""
        return Usage(
            self.calls - before.calls, self.input_tokens - before.input_tokens, self.output_tokens - before.output_tokens
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat; ``pictures`` are encoded images, before the text."""

    role: Literal["system", "user", "assistant"]
    text: str
    pictures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a generative model: a chat whose last message is the user's."""

    id: str
    messages: tuple[Message, ...]

    @classmethod
    def of(cls, request_id: str, prompt: str, picture: bytes | None = None) -> "Request":
        """Return a request of one message, perhaps with an encoded image."""
        return cls(request_id, (Message("user", prompt, () if picture is None else (picture,)),))


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply to one request.

    ``model`` is the name in the response. ``calls`` counts charged attempts, tokens are of all of them. ``complete`` is
    false if the token limit was reached.
    """

    text: str
    model: str
    calls: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Description:
    """A stored reply: the unchecked description of one figure, page or text, or the failure.

    ``money`` is its cost at the prices of its time.
    """

    id: str
    text: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    complete: bool = True
    failure: str | None = None
    money: float = 0.0


@dataclass(frozen=True, slots=True)
class PictureHash:
    """A figure's perceptual hash in hexadecimal digits, and the figure whose description it shares, perhaps itself."""

    id: str
    hash: str
    stand_in: str
