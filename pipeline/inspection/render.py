"""Write HTML from the templates of this package."""

from collections.abc import Iterator
from typing import Any

import jinja2

from schemas.flags import REFUSING
from schemas.tags import restore

_environment = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_environment.filters |= {
    "count": "{:,}".format,
    "money": lambda money: f"{money:,.4f}" if 0 < money < 1 else f"{money:,.2f}",
    "restore": restore,
    "weight": lambda flag: "refuses" if flag in REFUSING else "marks",
    "words": lambda name: name.replace("_", " "),
}


def render(template: str, **values: Any) -> Iterator[str]:
    """Yield a page piece by piece, so that memory holds one picture at a time."""
    return _environment.get_template(template).generate(values)
