"""A typed client of Inset's query service, synchronous and asynchronous."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from inset_client._replies import AnswerEvent, ApiError

if TYPE_CHECKING:
    from inset_client._async.client import AsyncClient
    from inset_client._sync.client import Client

__all__ = ["AnswerEvent", "ApiError", "AsyncClient", "Client"]

_GENERATED = {"AsyncClient": "inset_client._async.client", "Client": "inset_client._sync.client"}


def __getattr__(name: str) -> Any:
    """Import a client, which is generated, when it is used; a service runs without it."""
    if name not in _GENERATED:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    try:
        return getattr(import_module(_GENERATED[name]), name)
    except ModuleNotFoundError as error:
        missing = f"inset_client.{name} is not generated; run 'make client' in the checkout, or pip install clients/python"
        raise ImportError(missing if (error.name or "").startswith(__name__) else str(error)) from error
