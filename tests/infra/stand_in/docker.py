"""A stand-in for the package ``docker``, where there is no Docker: runs a container's command as a process of this machine.

It has what kfp's ``DockerRunner`` calls, so that the runner resolves a component's inputs and reads its outputs as with Docker.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any


class Container:
    """A started command."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def logs(self, *, stream: bool) -> Iterator[bytes]:
        """Yield the lines that the command prints."""
        assert stream
        assert self._process.stdout is not None
        yield from self._process.stdout

    def wait(self) -> dict[str, int]:
        """Return the exit code."""
        return {"StatusCode": self._process.wait()}


class DockerClient:
    """The client, its containers and its images in one."""

    def __init__(self) -> None:
        self.containers = self.images = self

    def info(self) -> dict[str, Any]:
        """Return no facts on the engine."""
        return {}

    def list(self) -> Sequence[Any]:
        """Return no images."""
        return ()

    def pull(self, image: str) -> None:
        """Take any image for present."""

    def run(self, *, command: Sequence[str], environment: dict[str, str], **_: object) -> Container:
        """Start a command."""
        variables = os.environ | environment
        return Container(subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))

    def close(self) -> None:
        """Close nothing."""


def from_env() -> DockerClient:
    """Return a client."""
    return DockerClient()
