"""How often one name may ask: requests a minute, counted by this process or by a Redis for all."""

import logging
import math
import time
from typing import TYPE_CHECKING, Any

from limits import RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError

from schemas.errors import UserError

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

_logger = logging.getLogger("inset.query_service")

ANSWER_S = 0.5
"""Longest wait for Redis."""

PAUSE_S = 5.0
"""Time for which a Redis that doesn't answer is left alone, and requests are counted here."""


class RateLimits:
    """The requests of each name in the last minute; the minute before counts by the part of it that is less than a minute ago.

    ``redis`` is the address of a Redis that counts for all processes, such as ``redis://host:6379/0``. While it doesn't answer,
    each process counts for itself, as without one.

    Raises:
        UserError: It isn't an address of a Redis, or the client isn't installed.
    """

    def __init__(self, redis: str | None = None) -> None:
        self._local = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._connections = None if redis is None else _connections(redis)
        self._shared: SlidingWindowCounterRateLimiter | None = None
        if self._connections is not None:
            options: dict[str, Any] = {"connection_pool": self._connections}
            storage = RedisStorage(
                "redis://", wrap_exceptions=True, implementation="redispy", key_prefix="inset:requests", **options
            )
            self._shared = SlidingWindowCounterRateLimiter(storage)
        self._retry_at = -math.inf

    async def wait_s(self, name: str, per_minute: int) -> float:
        """Count a request and return 0; or return the seconds until the next may be allowed, and count nothing."""
        if self._shared is not None and time.monotonic() >= self._retry_at:
            try:
                return await _wait_s(self._shared, name, per_minute)
            except StorageError as error:
                self._retry_at = time.monotonic() + PAUSE_S
                cause = type(error.storage_error).__name__
                _logger.error("Redis doesn't answer (%s); this process counts requests itself", cause)
        return await _wait_s(self._local, name, per_minute)

    async def close(self) -> None:
        """End connections; a later call opens another."""
        if self._connections is not None:
            await self._connections.aclose()


async def _wait_s(limiter: SlidingWindowCounterRateLimiter, name: str, per_minute: int) -> float:
    limit = RateLimitItemPerMinute(per_minute)
    if await limiter.hit(limit, name):
        return 0.0
    return max(1.0, (await limiter.get_window_stats(limit, name)).reset_time - time.time())


def _connections(url: str) -> "ConnectionPool":
    try:
        from redis.asyncio import ConnectionPool
    except ImportError as error:
        raise UserError("--redis needs the extra: pip install -e '.[redis]'") from error
    try:
        return ConnectionPool.from_url(url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S)
    except ValueError as error:  # its message may quote a password
        raise UserError("--redis isn't an address of a Redis; write one such as redis://localhost:6379/0") from error
