"""Start or join Ray, once a process."""

import contextlib
import logging
import os
from collections.abc import Iterator

from schemas.corpus import RayOptions
from schemas.errors import UserError


@contextlib.contextmanager
def connected(options: RayOptions) -> Iterator[int]:
    """Yield the number of CPUs of a Ray that is up; one that was started here is shut down again.

    Raises:
        UserError: Ray isn't installed, or there is no cluster at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Workers share this process's environment: Ray must not build one of its own when it is started through uv.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise UserError("Ray is not installed; run: pip install 'inset[ray]'") from error
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(
                address=options.address or "local",
                num_cpus=None if options.address else options.num_cpus,
                include_dashboard=False if options.address is None else None,
                logging_level=logging.WARNING,
                log_to_driver=False,
                configure_logging=False,
            )
        except ConnectionError as error:
            raise UserError(
                f"no Ray cluster answers at {options.address}; correct ray.address in the corpus file"
            ) from error
        _started_here.append(options.address is None)
    try:
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if started:
            _started_here.pop()
            ray.shutdown()


_started_here: list[bool] = []


def is_this_machine() -> bool:
    """Return whether the Ray that this process is connected to was started by it, and so has no node but this machine."""
    return _started_here == [True]
