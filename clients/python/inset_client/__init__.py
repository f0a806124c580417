"""A typed client of Inset's query service, synchronous and asynchronous."""

from inset_client._async import AsyncClient
from inset_client._replies import AnswerEvent, ApiError
from inset_client._sync import Client

__all__ = ["AnswerEvent", "ApiError", "AsyncClient", "Client"]
