"""Requests a minute, counted in a process or by Redis."""

import asyncio
import socket
import time
from pathlib import Path

import pytest

from query_service.rate_limits import PAUSE_S, RateLimits
from schemas.errors import UserError
from tests import redis_server


async def _waits(limits: RateLimits, name: str, count: int, per_minute: int = 2) -> list[float]:
    return [await limits.wait_s(name, per_minute) for _ in range(count)]


@pytest.mark.live
def test_redis_counts_for_all_processes(tmp_path: Path) -> None:
    async def ask(url: str) -> None:
        first_limits, second_limits = RateLimits(url), RateLimits(url)
        assert [*await _waits(first_limits, "équipe 泵", 1), *await _waits(second_limits, "équipe 泵", 1)] == [0, 0]
        for limits in (first_limits, second_limits):
            (wait,) = await _waits(limits, "équipe 泵", 1)
            assert 0 < wait <= 60
        assert await _waits(second_limits, "another", 2) == [0, 0]
        assert await _waits(first_limits, "fast", 200, 60_000) == [0] * 200
        await first_limits.close()
        await second_limits.close()

    with redis_server.running(tmp_path) as url:
        asyncio.run(ask(url))


def test_a_redis_that_is_not_there_is_asked_again_after_a_pause(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    limits = RateLimits(f"redis://:secret@127.0.0.1:{port}/0")
    first, second, third = asyncio.run(_waits(limits, "team", 3))
    assert first == second == 0 < third <= 60
    assert caplog.text.count("Redis doesn't answer") == 1
    monkeypatch.setattr(time, "monotonic", lambda clock=time.monotonic: clock() + 2 * PAUSE_S)
    assert asyncio.run(_waits(limits, "other team", 1)) == [0]
    assert caplog.text.count("Redis doesn't answer") == 2
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", ["localhost:6379", "http://localhost", "redis://:secret@localhost:port/0"])
def test_a_wrong_address_is_a_mistake(url: str) -> None:
    with pytest.raises(UserError, match="isn't an address of a Redis") as raised:
        RateLimits(url)
    assert "secret" not in raised.value.message
