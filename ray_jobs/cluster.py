"""Start or join Ray, once for each process, and bring Inset's code to its workers."""

import contextlib
import importlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import JsonValue

from schemas.corpus.operations import RayOptions
from schemas.errors import TransientError, UserError

CODE = ("backends", "evaluation", "pipeline", "ray_jobs", "schemas", "tasks", "workers")
"""Packages that a stage may import."""

_REACHED_WITHIN_S = 10.0

_REFUSED = "InvalidAuthToken"
"""In Ray's error message if a cluster refuses a token."""


@contextlib.contextmanager
def connected(options: RayOptions) -> Iterator[int]:
    """Yield the number of CPUs of a running Ray; one that was started here is shut down at the end.

    Raises ``UserError`` if Ray isn't installed or the cluster refuses the token, and ``TransientError`` if no cluster
    answers at the address, or Ray can't be started or joined.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Workers share this process's environment; under uv, Ray would build another.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    # Releases of Ray differ in whether they hide GPUs from actors that have none; ``ray_jobs.embed`` hides them itself.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if options.address is None and "ray" not in sys.modules:
        # Ray does this for a cluster of its own anyway, with a warning. It reads the variable when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ImportError as error:
        raise UserError("Ray is not installed; run: pip install 'inset[ray]'") from error
    started = not ray.is_initialized()
    if started:
        address = options.address
        if address is not None:
            _check_reachable(address)
        if address is None and "RAY_AUTH_TOKEN_PATH" not in os.environ:
            # Ray would write a token into the home folder, which may be missing or read-only in a container.
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        try:
            ray.init(
                address=address or "local",
                num_cpus=None if address else options.num_cpus,
                include_dashboard=None if address else False,
                runtime_env=_runtime_env(options) if address else None,
                logging_level=logging.WARNING,
                log_to_driver=False,
                configure_logging=False,
            )
        except ConnectionError as error:
            if _REFUSED in str(error.__cause__):
                raise UserError(
                    f"the Ray cluster at {address} requires a token, or another one: set RAY_AUTH_MODE=token and "
                    "RAY_AUTH_TOKEN where this runs"
                ) from error
            raise _unreachable(str(address), error) from error
        except Exception as error:  # Ray raises no narrower class where a node isn't up in time
            raise TransientError(f"Ray can't be {'joined' if address else 'started'}: {last_line(error)}") from error
        _started_here.append(address is None)
    try:
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if started:
            _started_here.pop()
            ray.shutdown()


def last_line(error: BaseException) -> str:
    """Return the last line of an error's message, or its class without one."""
    lines = [part.strip() for part in str(error).splitlines() if part.strip()]
    return lines[-1] if lines else type(error).__name__


def _check_reachable(address: str) -> None:
    """Raise if the port of an address doesn't answer: Ray waits for minutes, and may end the process then."""
    url = urlsplit(address if "://" in address else f"//{address}")
    if url.hostname and url.port:  # "auto" and "local" have none
        try:
            socket.create_connection((url.hostname, url.port), _REACHED_WITHIN_S).close()
        except OSError as error:
            raise _unreachable(address, error) from error


def _unreachable(address: str, error: OSError) -> TransientError:
    why = error.strerror or str(error)
    return TransientError(
        f"no Ray cluster answers at {address} ({why}): start it, or correct ray.address in the corpus file"
    )


def actors(gpus: float | Literal["auto"], workers: int | None, default_workers: int) -> tuple[int, float]:
    """Return the number of actors of a model, and the GPUs for each, which an autoscaler may have to start.

    ``auto`` is a GPU for each actor if the cluster has any. Without ``workers`` there are as many as its GPUs hold, at
    least one, or ``default_workers`` without GPUs.
    """
    import ray

    available = float(ray.cluster_resources().get("GPU", 0))
    gpus_per_actor = gpus if gpus != "auto" else float(available >= 1)
    return workers or (max(1, int(available / gpus_per_actor)) if gpus_per_actor else default_workers), gpus_per_actor


_started_here: list[bool] = []


def is_this_machine() -> bool:
    """Return whether this process started the Ray it is connected to, which then has only this machine."""
    return _started_here == [True]


def _runtime_env(options: RayOptions) -> dict[str, JsonValue]:
    """Return the runtime environment of workers: the corpus file's, and this code, unless ``py_modules`` is empty."""
    env = dict(options.runtime_env)
    if env.get("py_modules") == []:
        del env["py_modules"]
        return env
    if "py_modules" not in env:
        folders = [Path(str(importlib.import_module(name).__file__)).parent for name in CODE]
        env |= {"py_modules": [str(folder) for folder in folders], "excludes": ["__pycache__"]}
    return env
