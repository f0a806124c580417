"""Perceptual hash of a picture, 64 bits."""

from backends.models.pictures import fit

HASH_VERSION = "1"
"""Goes up when a picture gets another hash."""

_LARGEST_SIDE = 512
"""Pixels that are looked at; the hash is of 32 × 32."""


def perceptual_hash(picture: bytes) -> int:
    """Return the perceptual hash of an encoded picture: signs of its lowest DCT frequencies in grey (imagehash).

    Similar pictures differ in few bits, whatever their size, format and compression. Colours don't count.

    Raises:
        BadInputError: The picture can't be decoded.
    """
    import imagehash

    return int(str(imagehash.phash(fit(picture, _LARGEST_SIDE))), 16)
