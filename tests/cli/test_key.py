import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from query_service.keys import KEY_PREFIX, KeyFile
from schemas.errors import UserError

RUNNER = CliRunner()


def test_a_new_key_opens_what_its_line_says(tmp_path: Path) -> None:
    limits = ["--per-minute", "60", "--concurrent", "2", "--metrics"]
    result = RUNNER.invoke(app, ["key", "équipe", "--corpora", "pumps, valves", "--expires", "12w", *limits])
    assert result.exit_code == 0
    key = next(word for word in result.stderr.split() if word.startswith(KEY_PREFIX))
    assert key not in result.stdout
    file = tmp_path / "keys.jsonl"
    file.write_text(result.stdout)
    entry = KeyFile(file).find(key)
    assert entry is not None
    assert (entry.name, entry.corpora) == ("équipe", ("pumps", "valves"))
    assert (entry.per_minute, entry.concurrent, entry.metrics) == (60, 2, True)
    assert entry.expires is not None
    assert abs(entry.expires - datetime.now(UTC) - timedelta(weeks=12)) < timedelta(minutes=1)


def test_two_keys_of_one_name_differ() -> None:
    keys = [json.loads(RUNNER.invoke(app, ["key", "a", "--corpora", "*", "--json"]).stdout) for _ in range(2)]
    assert keys[0]["key"] != keys[1]["key"]
    assert keys[0]["entry"]["sha256"] != keys[1]["entry"]["sha256"]


@pytest.mark.parametrize("expires", ["never", "2999-01-31", "1d"])
def test_an_expiry_is_a_span_a_date_or_never(expires: str) -> None:
    entry = json.loads(RUNNER.invoke(app, ["key", "a", "--corpora", "*", "--expires", expires, "--json"]).stdout)["entry"]
    assert ("expires" in entry) == (expires != "never")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["a"], "--corpora A,B"),
        (["a", "--corpora", " , "], "--corpora A,B"),
        (["", "--corpora", "*"], "isn't a name of a key"),
        (["a\nb", "--corpora", "*"], "isn't a name of a key"),
        (["a" * 101, "--corpora", "*"], "isn't a name of a key"),
        (["a\u202eb", "--corpora", "*"], "isn't a name of a key"),
        (["a", "--corpora", "*", "--expires", "2020-01-01"], "has passed"),
        (["a", "--corpora", "*", "--expires", "0d"], "write days"),
        (["a", "--corpora", "*", "--expires", "-5d"], "write days"),
        (["a", "--corpora", "*", "--expires", "999999y"], "write days"),
        (["a", "--corpora", "*", "--expires", "soon"], "write days"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], line: str) -> None:
    result = RUNNER.invoke(app, ["key", *arguments])
    assert isinstance(result.exception, UserError)
    assert line in result.exception.message
    assert "\n" not in result.exception.message
    assert result.stdout == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_serve_refuses_to_be_open_to_other_machines(host: str) -> None:
    refused = RUNNER.invoke(app, ["serve", "--host", host])
    assert isinstance(refused.exception, UserError)
    assert "--keys FILE" in refused.exception.message


def test_serve_takes_the_key_file_from_the_environment(tmp_path: Path) -> None:
    refused = RUNNER.invoke(app, ["serve"], env={"INSET_KEYS": str(tmp_path / "none.jsonl")})
    assert isinstance(refused.exception, UserError)
    assert "none.jsonl" in refused.exception.message
