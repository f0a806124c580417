from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

CheckGolden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew instead of comparing with it")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> CheckGolden:
    """Compare a text with ``tests/golden/<name>``, or write it there with ``--update-golden``."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"{file} is missing; write it with: pytest --update-golden"
        assert text == file.read_text(encoding="utf-8"), f"{name} changed; if that is meant: pytest --update-golden"

    return check
