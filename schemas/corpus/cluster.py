"""Section ray: where the heavy work runs."""

from pydantic import Field, JsonValue, field_validator

from schemas.corpus.fields import Address, Section, Server, Text, Workers


class RayOptions(Section):
    """Where the heavy work runs."""

    address: Address | None = Field(
        None, description="Address of a Ray cluster; without one Ray runs in this process tree."
    )
    num_cpus: Workers | None = Field(None, description="CPUs a local Ray may take; default: all.")
    jobs: Server | None = Field(
        None,
        description="Address of the cluster's job server, such as http://head:8265: Airflow has enrich run there as a Ray Job, "
        "and no worker of Airflow waits for it.",
    )
    runtime_env: dict[Text, JsonValue] = Field(
        {},
        description="Runtime environment of the cluster's workers, as Ray spells it, such as {pip: [...]}. Inset's own code is "
        "sent along, unless this names py_modules.",
    )

    @field_validator("runtime_env")
    @classmethod
    def _without_secrets(cls, runtime_env: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if "env_vars" in runtime_env:
            raise ValueError("set environment variables where the cluster's nodes start; a corpus file is stored and shown")
        if "working_dir" in runtime_env:
            raise ValueError("a job's working_dir holds its order; bring code as py_modules, or in the image")
        return runtime_env
