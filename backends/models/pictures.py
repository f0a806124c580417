"""Pictures as models want them."""

import base64
import io
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from backends.models.devices import STARVED
from schemas.errors import BadInputError, FailureCode, RequestError

if TYPE_CHECKING:
    from PIL.Image import Image

_OPENING = threading.Lock()
_RECEIVING = threading.Lock()


def open_picture(picture: bytes, largest_side: int) -> "Image":
    """Return an encoded picture in RGB, transparency on white, its longer side at most ``largest_side`` pixels.

    Strips narrower than a ``NARROWEST``-th of their length are padded with white, so that no model enlarges them.

    Raises:
        BadInputError: The picture can't be decoded.
    """
    from PIL import Image

    rgb = fit(picture, largest_side)
    least = -(-max(rgb.size) // NARROWEST)
    if min(rgb.size) >= least:
        return rgb
    wide = Image.new("RGB", (max(rgb.width, least), max(rgb.height, least)), "white")
    wide.paste(rgb, ((wide.width - rgb.width) // 2, (wide.height - rgb.height) // 2))
    return wide


NARROWEST = 20
"""Maximum aspect ratio of a picture for a model.

A rule of 1 by 5,000 pixels, scaled up by the model, takes 750 MB; Qwen's processor refuses a ratio of 200.
"""


def decode(picture: bytes, largest_side: int) -> tuple[NDArray[np.uint8], float]:
    """Return the pixels of an encoded picture, BGR, shape ``(height, width, 3)``, and the factor from them to the given size.

    Raises:
        BadInputError: The picture can't be decoded.
    """
    image, _given, scale = _fitted(picture, largest_side)
    return np.ascontiguousarray(np.asarray(image)[:, :, ::-1]), scale


def fit(picture: bytes, largest_side: int) -> "Image":
    """Return an encoded picture in RGB, on white, its longer side at most ``largest_side`` pixels; raises as ``decode`` does."""
    return _fitted(picture, largest_side)[0]


def encode(picture: bytes, largest_side: int) -> tuple[bytes, str]:
    """Return a picture encoded for a server, and its media type; bytes that fit are kept. Raises as ``decode`` does."""
    image, source_image, scale = _fitted(picture, largest_side)
    encoding = "JPEG" if source_image.format == "JPEG" else "PNG"
    media_type = f"image/{encoding.lower()}"
    if (
        scale == 1
        and source_image.format == encoding
        and source_image.mode in ("RGB", "L")
        and not source_image.has_transparency_data
    ):
        return picture, media_type
    buffer = io.BytesIO()
    image.save(buffer, encoding, quality=_JPEG_QUALITY)
    return buffer.getvalue(), media_type


def content_parts(text: str, pictures: Sequence[bytes], largest_side: int) -> list[dict[str, Any]]:
    """Return the content of a message, pictures first, in OpenAI's form; raises as ``encode`` does."""
    parts: list[dict[str, Any]] = []
    for source_picture in pictures:
        picture, media_type = encode(source_picture, largest_side)
        url = f"data:{media_type};base64,{base64.b64encode(picture).decode()}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return [*parts, {"type": "text", "text": text}]


RECEIVED_PIXELS = 25_000_000
RECEIVED_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""Formats of a query picture. Pillow runs Ghostscript on some others."""

_RECEIVED_SIDE = 2048


def receive(picture: bytes) -> bytes:
    """Return an untrusted picture as one that is safe to decode: upright, its longer side at most 2,048 pixels.

    The size is checked before decoding, and one picture is decoded at a time, which bounds memory to a few layers of 100
    MB. A picture that is small and upright keeps its bytes.

    Raises:
        RequestError: It is in no format of ``RECEIVED_FORMATS``, broken, or has more than ``RECEIVED_PIXELS``.
    """
    from PIL import Image, UnidentifiedImageError

    with _RECEIVING:
        _refuse_cut_pictures()
        try:
            return _received(picture)
        except (RequestError, MemoryError):
            raise
        except UnidentifiedImageError as error:
            raise RequestError(f"the picture can't be read: it is none of {', '.join(RECEIVED_FORMATS)}") from error
        except Image.DecompressionBombError as error:
            raise RequestError(_TOO_LARGE) from error
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
            raise RequestError(f"the picture can't be read: {reason}") from error


def _refuse_cut_pictures() -> None:
    """Take back what WeasyPrint, where it is imported, sets for the whole process."""
    from PIL import ImageFile

    ImageFile.LOAD_TRUNCATED_IMAGES = False


def _received(picture: bytes) -> bytes:
    from PIL import ExifTags, Image, ImageOps

    with _OPENING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(picture), formats=RECEIVED_FORMATS)
    if image.width * image.height > RECEIVED_PIXELS:
        raise RequestError(_TOO_LARGE)
    fits = max(image.size) <= _RECEIVED_SIDE
    image.draft("RGB", (_RECEIVED_SIDE, _RECEIVED_SIDE))
    is_turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1  # of a PNG, it may decode all of it
    rgb = _on_white(ImageOps.exif_transpose(image) if is_turned else image)  # decodes all of it
    if fits and not is_turned and image.format in ("PNG", "JPEG"):
        return picture
    rgb.thumbnail((_RECEIVED_SIDE, _RECEIVED_SIDE))
    buffer = io.BytesIO()
    rgb.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


_TOO_LARGE = f"the picture has more than {RECEIVED_PIXELS // 1_000_000} million pixels; make it smaller"


@contextmanager
def rejecting_engine_errors(engine: str) -> Iterator[None]:
    """Turn any error of an engine on a picture into one; for exhausted memory with a code that doesn't blame the picture.

    Raises:
        BadInputError: The work inside failed.
    """
    try:
        yield
    except Exception as error:
        message = str(error).strip().rpartition("\n")[2] or type(error).__name__
        starved = isinstance(error, MemoryError) or STARVED.search(message) is not None
        code = FailureCode.MODEL_CRASHED if starved else FailureCode.MODEL_FAILED
        raise BadInputError(f"{engine} failed on a picture: {message}", code) from error


_JPEG_QUALITY = 90
"""Of a scaled photograph; drawings are written as PNG."""


def _fitted(picture: bytes, largest_side: int) -> tuple["Image", "Image", float]:
    """Return a picture as models want it, and the factor from it to the given size."""
    from PIL import Image

    _refuse_cut_pictures()
    try:
        # Filters of warnings are the whole process's; threads may be decoding.
        with _OPENING, warnings.catch_warnings():
            # Its pixels were bounded when the figure was stored; this isn't an upload.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(picture))
        largest = max(image.size)
        if largest > largest_side:
            image.draft("RGB", (largest_side, largest_side))
        rgb = _on_white(image)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadInputError(f"a picture can't be decoded: {error}", FailureCode.IMAGE_REJECTED) from error
    rgb.thumbnail((largest_side, largest_side))
    return rgb, image, largest / max(rgb.size)


def _on_white(image: "Image") -> "Image":
    from PIL import Image

    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
