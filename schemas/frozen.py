"""The base of data models."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable model that rejects unknown keys."""

    # A reply has all its fields, so schemas of replies require them; without it, generated clients hold each for optional.
    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)
