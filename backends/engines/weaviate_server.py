"""A Weaviate server: one connection for each process, translated errors, and aliases."""

import atexit
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from schemas.errors import ContractError, InsetError, TransientError, UserError

FLOOR = (1, 36)
"""The oldest release with aliases, named vectors and multi-vectors."""

_REACHED_WITHIN_S = 10.0
_RECONNECTED_AFTER_MS = 1000

_clients: dict[tuple["WeaviateServer", int], Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class WeaviateServer:
    """Address of a server, connected on first use.

    Args:
        url: Its HTTP address.
        grpc_port: Port of its gRPC service, on the same host.
        api_key_env: Environment variable with an API key; None for anonymous access.
    """

    url: str
    grpc_port: int = 50051
    api_key_env: str | None = None

    def client(self) -> Any:
        """Return this process's connection, shared by all threads and closed at exit.

        Raises:
            TransientError: The server doesn't answer.
            UserError: It is too old, or the API key is missing.
        """
        with _lock:
            client_key = (self, os.getpid())  # a forked child must not use its parent's channel
            if client_key not in _clients:
                _clients[client_key] = self._connect()
            return _clients[client_key]

    def release(self) -> str:
        """Return the server's release, such as ``1.38.11``."""
        with self.translated_errors():
            return str(self.client().get_meta()["version"])

    def check_reachable(self) -> None:
        """Raise ``TransientError`` if the gRPC port doesn't answer, for which the client would wait more than a minute."""
        try:
            socket.create_connection((urlsplit(self.url).hostname or "", self.grpc_port), _REACHED_WITHIN_S).close()
        except OSError as error:
            raise self._unreachable() from error

    def close(self) -> None:
        """Close this process's connection, if any."""
        with _lock:
            client = _clients.pop((self, os.getpid()), None)
        if client is not None:
            client.close()

    def alias(self, name: str) -> str | None:
        """Return the collection of an alias; None if it doesn't exist."""
        with self.translated_errors():
            response = self.client().alias.get(alias_name=name)
        return None if response is None else str(response.collection)

    def point(self, name: str, collection: str) -> None:
        """Point an alias to a collection; the server may go on naming the old one for a moment."""
        with self.translated_errors():
            aliases = self.client().alias
            if not aliases.update(alias_name=name, new_target_collection=collection):
                aliases.create(alias_name=name, target_collection=collection)

    @contextlib.contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Translate the client's errors: transient, the user's mistake, or a bug."""
        from weaviate.exceptions import WeaviateBaseError

        try:
            yield
        except WeaviateBaseError as error:
            raise self._translated(error) from error

    def _connect(self) -> Any:
        try:
            import weaviate
            from weaviate.classes.init import AdditionalConfig, GrpcConfig, Timeout
        except ModuleNotFoundError as error:
            raise UserError("engine weaviate needs the extra: pip install -e '.[weaviate]', or make install") from error
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        # By default a channel retries a lost server after up to two minutes.
        reconnect = [(f"grpc.{which}_reconnect_backoff_ms", _RECONNECTED_AFTER_MS) for which in ("initial", "max")]
        with self.translated_errors():
            # The client's own checks look for newer releases on a package index.
            client = weaviate.connect_to_custom(
                http_host=parts.hostname or "",
                http_port=parts.port or (443 if secure else 80),
                http_secure=secure,
                grpc_host=parts.hostname or "",
                grpc_port=self.grpc_port,
                grpc_secure=secure,
                auth_credentials=self._api_key(),
                additional_config=AdditionalConfig(
                    timeout=Timeout(init=60, query=60, insert=180), grpc_config=GrpcConfig(channel_options=reconnect)
                ),
                skip_init_checks=True,
            )
        release = str(client.get_meta()["version"])
        if tuple(int(part) for part in release.split(".")[:2]) < FLOOR:
            client.close()
            needed = ".".join(map(str, FLOOR))
            raise UserError(f"Weaviate at {self.url} is {release}; at least {needed} is needed, so upgrade the server")
        return client

    def _api_key(self) -> str | None:
        if self.api_key_env is None:
            return None
        if not os.environ.get(self.api_key_env):
            raise UserError(f"index.api_key_env names {self.api_key_env}, which is not set; export the server's API key")
        return os.environ[self.api_key_env]

    def _translated(self, error: Exception) -> InsetError:
        from weaviate import exceptions as known

        unreached = (
            known.WeaviateConnectionError,
            known.WeaviateStartUpError,
            known.WeaviateTimeoutError,
            known.WeaviateGRPCUnavailableError,
            known.WeaviateClosedClientError,
        )
        text = " ".join(str(error).split())
        if isinstance(error, unreached) or "UNAVAILABLE" in text or "DEADLINE_EXCEEDED" in text:
            return self._unreachable()
        if isinstance(error, known.AuthenticationFailedError | known.InsufficientPermissionsError):
            return UserError(f"Weaviate at {self.url} refuses the API key; correct what index.api_key_env names ({text})")
        if isinstance(error, known.UnexpectedStatusCodeError) and error.status_code >= 500:
            return TransientError(f"Weaviate at {self.url} failed: {text}")
        return ContractError(f"Weaviate at {self.url} refused: {text}")

    def _unreachable(self) -> TransientError:
        return TransientError(
            f"Weaviate at {self.url} (gRPC port {self.grpc_port}) doesn't answer; start it, for example with: "
            f"docker compose -f infra/compose.yaml up -d weaviate, or correct 'index' in the corpus file"
        )


@atexit.register
def close_all() -> None:
    """Close every connection of this process."""
    for server, process in list(_clients):
        if process == os.getpid():
            server.close()
