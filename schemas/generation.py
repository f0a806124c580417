"""What a generative model is asked, and what it replies."""

from dataclasses import dataclass
from typing import Literal

Subject = Literal["figure", "page", "text"]
"""What a generative model describes: a figure, the picture of a page, or a row of text or of a table."""


@dataclass(slots=True)
class Usage:
    """What requests cost: ``calls`` that may have been paid for, and the tokens of their answers, as the model reports them."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, more: "Usage") -> None:
        """Count what other requests cost as well."""
        self.calls += more.calls
        self.input_tokens += more.input_tokens
        self.output_tokens += more.output_tokens


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat; ``pictures`` are encoded images, which the model sees before the words, in order."""

    role: Literal["system", "user", "assistant"]
    text: str
    pictures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a generative model: the messages of a chat, the last one the user's."""

    id: str
    messages: tuple[Message, ...]

    @classmethod
    def of(cls, request_id: str, prompt: str, picture: bytes | None = None) -> "Request":
        """Return a request of one message; ``picture`` is an encoded image, None where words are enough."""
        return cls(request_id, (Message("user", prompt, () if picture is None else (picture,)),))


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model made of one request.

    ``model`` is the name that the answer gives. ``calls`` counts the attempts that were paid for, tokens are of all of them, as
    the model reports them. ``complete`` is false where the model stopped at its limit of tokens.
    """

    text: str
    model: str
    calls: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Description:
    """A reply as it is kept: what a model wrote of one figure, page or text, or why it can't; unchecked.

    ``money`` is what it cost, at the prices of then.
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
    """What a figure looks like, as a perceptual hash in hexadecimal digits, and the figure that stands for it, maybe itself."""

    id: str
    hash: str
    stand_in: str
