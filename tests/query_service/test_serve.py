import logging
import socket

import pytest
from fastapi import FastAPI

from query_service.serve import listen, server_of
from schemas.errors import UserError


def test_a_taken_port_is_one_line() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UserError, match="something else listens there") as raised,
    ):
        listen("127.0.0.1", taken.getsockname()[1])
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("host", "port", "line"),
    [
        ("127.0.0.1", 70_000, "a port is a number from 0 to 65535"),
        ("127.0.0.1", -1, "a port is a number from 0 to 65535"),
        ("192.0.2.1", 0, "that is not an address of this machine"),
        ("nowhere.invalid", 0, "there is no such host"),
    ],
)
def test_an_address_that_cannot_be_had_is_one_line(host: str, port: int, line: str) -> None:
    with pytest.raises(UserError, match=line):
        listen(host, port)


def test_a_free_port_is_taken() -> None:
    with listen("127.0.0.1", 0) as bound:
        assert bound.getsockname()[1] > 0


def test_a_traceback_in_the_log_runs_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    server_of(FastAPI())
    try:
        raise ValueError("the text of a PDF: \x1b[2J\u202eends")
    except ValueError:
        logging.getLogger("inset.query_service").exception("it failed")
    log = capsys.readouterr().err
    assert "it failed" in log
    assert r"the text of a PDF: \x1b[2J\u202eends" in log
    assert "\x1b" not in log
    assert "Traceback" in log.splitlines()[1]
