"""Section index: the engine that holds a version's rows."""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from schemas.corpus.fields import Address, Section, Variable


class IndexOptions(Section):
    """The engine of the index."""

    engine: Literal["lancedb", "weaviate"] = Field("lancedb", description="'lancedb' (embedded), or 'weaviate' (a server).")
    url: Address | None = Field(None, description="Address of the Weaviate server, such as http://localhost:8080.")
    grpc_port: int = Field(50051, ge=1, le=65535, description="Port of the server's gRPC service, on the same host.")
    api_key_env: Variable | None = Field(
        None, description="Environment variable with the server's API key, where it wants one."
    )
    exact: bool = Field(False, description="Weaviate: compare with every vector (a flat index) instead of HNSW.")
    replicas: int = Field(1, ge=1, le=1000, description="Weaviate: nodes that each row is kept on.")

    def shape(self) -> dict[str, object]:
        """Return what distinguishes one collection from another; ports and keys don't."""
        if self.engine == "lancedb":
            return {"engine": self.engine}
        return {"engine": self.engine, "url": self.url, "exact": self.exact, "replicas": self.replicas}

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        advice = "use http://host:port or https://host:port"
        parts = urlsplit(url or "http://unset")
        try:
            _ = parts.port
        except ValueError as error:  # what it says holds what stands there
            raise ValueError(advice) from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ValueError(advice)
        if parts.query or parts.fragment:
            raise ValueError(advice)
        return url and url.rstrip("/")

    @model_validator(mode="after")
    def _placed(self) -> "IndexOptions":
        if self.engine == "weaviate" and self.url is None:
            raise ValueError("engine weaviate needs a url, such as http://localhost:8080")
        if self.url is not None and urlsplit(self.url).port == self.grpc_port:
            raise ValueError("url and grpc_port name the same port; the gRPC service has one of its own, 50051 by default")
        return self


class Collection(IndexOptions):
    """Where a version's collection is, as its manifest records it; obsolete keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    collection: str | None = Field(
        None,
        exclude_if=lambda name: name is None,
        description="Its name in the engine, where it was brought forward; null: that of its version.",
    )
    forwarded_from: str | None = Field(
        None, exclude_if=lambda name: name is None, description="The version whose collection was brought forward."
    )
    languages: list[str] = Field([], description="Those of its documents, by which questions are analysed.")
