"""What a picture looks like, in 64 bits."""

from backends.models.pictures import fit

HASH_VERSION = "1"
"""Goes up when a picture gets another hash."""

_LARGEST_SIDE = 512
"""Pixels that are looked at; the hash is of 32 × 32."""


def perceptual_hash(picture: bytes) -> int:
    """Return the perceptual hash of an encoded picture: signs of the lowest frequencies of its grey values (DCT, imagehash).

    Pictures that look alike differ in few bits, whatever their size, format and compression. Pictures of one colour are all
    alike, and so are those that differ in colour only.

    Raises:
        BadInputError: The picture can't be decoded.
    """
    import imagehash

    return int(str(imagehash.phash(fit(picture, _LARGEST_SIDE))), 16)
