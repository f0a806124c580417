"""Roman numerals, as pages, figures and chapters are numbered by them."""

from itertools import pairwise

ROMAN = r"(?=[ivxlc])c{0,3}(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})(?<=[ivxlc])"
"""One in its only right spelling, up to 399, in small letters: "civil", "vic" and "ill" are words. Needs an end behind it."""

_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def roman_value(numeral: str) -> int:
    """Return the number that a Roman numeral of ``ROMAN`` stands for, in capitals or not."""
    values = [_VALUES[letter] for letter in numeral.lower()]
    return sum(-value if value < after else value for value, after in pairwise([*values, 0]))
