"""Roman numerals, as pages, figures and chapters are numbered by them."""

from itertools import pairwise

ROMAN = r"(?=[ivxlc])c{0,3}(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})(?<=[ivxlc])"
"""A Roman numeral in its only correct spelling, up to 399, in lower case: "civil" and "ill" are words. Needs an end after it."""

_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def roman_value(numeral: str) -> int:
    """Return the value of a Roman numeral of ``ROMAN``, in any case."""
    values = [_VALUES[letter] for letter in numeral.lower()]
    return sum(-value if value < after else value for value, after in pairwise([*values, 0]))


_DIGITS = [(1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x")]
_DIGITS += [(9, "ix"), (5, "v"), (4, "iv"), (1, "i")]
_MOST = 3999


def roman(number: int) -> str:
    """Return a number as a lower-case Roman numeral; in digits below 1 and above 3999."""
    if not 0 < number <= _MOST:
        return str(number)
    numeral = ""
    for value, digit in _DIGITS:
        times, number = divmod(number, value)
        numeral += digit * times
    return numeral
