"""Count the requests a minute of each key, user or address: in this process, or in a Redis that all workers and hosts share."""

import logging
import math
import time
from collections.abc import Callable

from schemas.errors import UserError

ANSWER_S = 0.5
"""Longest wait for Redis."""

BUCKETS = 10_000
"""Callers in memory above which those of more than a minute ago are forgotten."""

PAUSE_S = 5.0
"""Time for which a Redis that doesn't answer is left alone, and requests are counted here."""

_TAKE = """
local rate, now = tonumber(ARGV[1]), redis.call('TIME')
now = now[1] + now[2] / 1e6
local left, since = unpack(redis.call('HMGET', KEYS[1], 'left', 'since'))
left = math.min(rate, (tonumber(left) or rate) + (now - (tonumber(since) or now)) * rate / 60)
local wait = 0
if left < 1 then wait = (1 - left) * 60 / rate else left = left - 1 end
redis.call('HSET', KEYS[1], 'left', left, 'since', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[1], 60)
return tostring(wait)
"""
"""``RateLimits.wait_s`` as one atomic script, by Redis's clock; after a minute a bucket is full again."""

_logger = logging.getLogger("inset.query_service")


class RateLimits:
    """A token bucket for each name, of as many tokens as requests a minute, counted in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    async def wait_s(self, name: str, per_minute: int) -> float:
        """Count a request and return 0; or return the seconds until the next is allowed, and count nothing."""
        now = self._clock()
        if len(self._buckets) > BUCKETS:  # full ones are as good as new
            self._buckets = {name: (tokens, since) for name, (tokens, since) in self._buckets.items() if now - since < 60}
        tokens, since = self._buckets.get(name, (float(per_minute), now))
        tokens = min(per_minute, tokens + (now - since) * per_minute / 60)
        self._buckets[name] = (tokens if tokens < 1 else tokens - 1), now
        return (1 - tokens) * 60 / per_minute if tokens < 1 else 0.0

    async def close(self) -> None:
        """End connections; a later call opens another."""


class SharedRateLimits(RateLimits):
    """The same in a Redis. While it doesn't answer, each process counts for itself.

    Args:
        url: Address, such as ``redis://host:6379/0``.
        clock: Times the pauses, and what this process counts.

    Raises:
        UserError: It is no address of a Redis, or the client isn't installed.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise UserError("--redis needs the extra: pip install -e '.[redis]'") from error
        once = Retry(NoBackoff(), 1)  # again where an idle connection was closed
        try:
            client = Redis.from_url(url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S, retry=once)
        except ValueError as error:  # its message may quote a password
            raise UserError("--redis is no address of a Redis; write one such as redis://localhost:6379/0") from error
        self._client, self._take_script = client, client.register_script(_TAKE)
        self._retry_at = -math.inf

    async def wait_s(self, name: str, per_minute: int) -> float:
        """Count a request in Redis; see ``RateLimits``."""
        from redis.exceptions import RedisError

        if self._clock() >= self._retry_at:
            try:
                return float(await self._take_script(keys=[f"inset:requests:{name}"], args=[per_minute]))
            except RedisError as error:
                self._retry_at = self._clock() + PAUSE_S
                _logger.error("Redis doesn't answer (%s); this process counts requests itself", type(error).__name__)
        return await super().wait_s(name, per_minute)

    async def close(self) -> None:
        """End connections; a later call opens another."""
        await self._client.aclose()
