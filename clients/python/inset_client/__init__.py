"""A typed client of Inset's query service, synchronous and asynchronous."""

from typing import TYPE_CHECKING, Any

from inset_client._async import AsyncClient
from inset_client._replies import AnswerEvent, ApiError

if TYPE_CHECKING:
    from inset_client._sync import Client

__all__ = ["AnswerEvent", "ApiError", "AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    """Import the synchronous client, which is generated, when it is used; a service runs without it."""
    if name != "Client":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    try:
        from inset_client._sync import Client
    except ModuleNotFoundError as error:
        missing = "inset_client.Client is not generated; run 'make client' in the checkout, or pip install clients/python"
        raise ImportError(missing if error.name == f"{__name__}._sync" else str(error)) from error
    return Client
