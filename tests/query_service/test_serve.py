import socket

import pytest

from query_service.serve import listen
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
