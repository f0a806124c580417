"""Pictures as models want them."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInputError, FailureCode

if TYPE_CHECKING:
    from PIL.Image import Image


def decode(picture: bytes, largest_side: int) -> tuple[NDArray[np.uint8], float]:
    """Return the pixels of an encoded picture and what to multiply places among them by.

    Args:
        picture: PNG, JPEG or the like; transparency is laid on white.
        largest_side: Pixels of the longer side at most; a larger picture is scaled down.

    Returns:
        BGR, shape ``(height, width, 3)``, and the size of the picture as given over that of the pixels.

    Raises:
        BadInputError: The picture can't be decoded.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Its pixels were bounded when the figure was stored; this is no upload.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(picture))
            largest = max(image.size)
            if largest > largest_side:
                image.draft("RGB", (largest_side, largest_side))
            rgb = _on_white(image)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadInputError(f"a picture can't be decoded: {error}", FailureCode.IMAGE_REJECTED) from error
    rgb.thumbnail((largest_side, largest_side))
    return np.ascontiguousarray(np.asarray(rgb)[:, :, ::-1]), largest / max(rgb.size)


@contextmanager
def stumbling(engine: str) -> Iterator[None]:
    """Turn whatever an engine stumbles over into one error: it lies in the picture that it was given.

    Memory that ran out says nothing about the picture, and the error's code says so.

    Raises:
        BadInputError: The work inside failed.
    """
    try:
        yield
    except Exception as error:
        message = str(error).strip().rpartition("\n")[2] or type(error).__name__
        starved = isinstance(error, MemoryError) or _STARVED.search(message) is not None
        code = FailureCode.MODEL_CRASHED if starved else FailureCode.MODEL_FAILED
        raise BadInputError(f"{engine} failed on a picture: {message}", code) from error


_STARVED = re.compile(r"bad[ _]?alloc|out of memory|insufficient memory|failed to allocate", re.IGNORECASE)


def _on_white(image: "Image") -> "Image":
    from PIL import Image

    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
