"""Give every figure of a version the number of its tag."""

from collections.abc import Mapping

from schemas.tags import DIGITS_DEFAULT, DIGITS_MOST


def number_figure(digest: int, digits: int = DIGITS_DEFAULT) -> str:
    """Return the number of a figure with an unshared number: the last digits of its SHA-1, as an integer."""
    return f"{digest % 10**digits:0{digits}d}"


def number_figures(digests: Mapping[str, int], digits: int = DIGITS_DEFAULT) -> dict[str, str]:
    """Return the tag number of every figure.

    The number is ``digest mod 10^digits``, zero-padded. Figures that share one get the shortest suffixes that distinguish
    them. The result depends on the set only.

    Args:
        digests: Figure id to the integer value of its SHA-1.
        digits: Digits of an unshared number, 4 to 49.
    """
    numbers: dict[str, str] = {}
    pending: dict[int, list[str]] = {digits: sorted(digests)}
    width = digits
    while width in pending:
        groups: dict[int, list[str]] = {}
        for figure in pending.pop(width):
            groups.setdefault(digests[figure] % 10**width, []).append(figure)
        for value, figures in groups.items():
            if len(figures) == 1 or width >= DIGITS_MOST:
                numbers.update(dict.fromkeys(figures, f"{value:0{width}d}"))
            else:
                pending.setdefault(width + 1, []).extend(figures)
        width += 1
    return numbers
