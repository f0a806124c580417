"""Inset's refresh as a Kubeflow pipeline. ``make kubeflow`` compiles it into ``pipeline.yaml``.

kfp is in an environment of its own, because it excludes the Kubernetes client of Airflow's current provider. Components are
container components, so that the image needs Inset and not kfp.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from kfp import compiler, dsl, kubernetes

from schemas.stages import ON_A_VERSION, Stage

COMPILED = Path(__file__).with_name("pipeline.yaml")

_IMAGE = "inset"
"""Replaced by the pipeline's parameter ``image``."""

_CORPORA = "/etc/inset/corpora"
"""Folder in each container that holds the files of the ConfigMap."""

_FROM_SECRET = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_DEFAULT_REGION",
    "INSET_API_KEY",
]
"""Keys of the secret, each optional, and the environment variables they become."""

# Limits of each task. Not parameters: kfp 2.16.1 doesn't pass those that only limits use into the exit handler's tasks.
_CPU = "2"
_MEMORY = "8Gi"

_ACCELERATOR = "nvidia.com/gpu"
"""Resource of which ``enrich`` asks for as many as the corpus file gives its models."""

_RETRIES = 3
_FIRST_WAIT = "60s"


@dsl.container_component
def plan(
    corpus: str,
    run: str,
    groups: int,
    version: dsl.OutputPath(str),
    shards: dsl.OutputPath(list),
    gpus: dsl.OutputPath(int),
) -> dsl.ContainerSpec:
    """Compare the source with the live version."""
    return dsl.ContainerSpec(
        image=_IMAGE,
        command=["inset", "step", Stage.PLAN.value],
        args=[corpus, run, "--groups", groups, "--version-out", version, "--shards-out", shards, "--gpus-out", gpus],
    )


@dsl.container_component
def parse(corpus: str, run: str, version: str, shards: str) -> dsl.ContainerSpec:
    """Parse the documents of some shards, each in its own process."""
    return dsl.ContainerSpec(
        image=_IMAGE,
        command=["inset", "step", Stage.PARSE.value],
        args=[corpus, run, "--version", version, "--shards", shards],
    )


@dsl.container_component
def release(corpus: str, run: str) -> dsl.ContainerSpec:
    """Release the run's lease, whether the run succeeded or not."""
    return dsl.ContainerSpec(image=_IMAGE, command=["inset", "step", "release"], args=[corpus, run])


def _on_a_version(stage: Stage, description: str) -> Callable[..., dsl.PipelineTask]:
    """Return the component of a stage that works on the version as a whole."""

    def component(corpus: str, run: str, version: str) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(
            image=_IMAGE, command=["inset", "step", stage.value], args=[corpus, run, "--version", version]
        )

    component.__name__, component.__doc__ = stage.value, description
    return dsl.container_component(component)


on_a_version = [_on_a_version(stage, about) for stage, about in ON_A_VERSION.items()]
publish = _on_a_version(Stage.PUBLISH, "Write the manifest; make the version live if every gate holds.")


@dsl.pipeline(name="inset-refresh", description="Bring the live version of a corpus up to date with its source.")
def refresh(
    image: str,
    corpus: str,
    groups: int = 8,
    config_map: str = "inset-corpora",
    secret: str = "inset",  # noqa: S107  a name, no secret
) -> None:
    """Bring the live version of a corpus up to date.

    The name of the run is Kubeflow's id of it, because two runs of one name would share a lease.

    Args:
        image: An image with ``inset`` on its PATH.
        corpus: Name of the corpus: the ConfigMap has ``NAME.yaml``.
        groups: Most tasks of parse.
        config_map: ConfigMap with corpus files, and the questions they name.
        secret: Secret with environment variables.
    """
    run = dsl.PIPELINE_JOB_ID_PLACEHOLDER

    def placed(task: dsl.PipelineTask, *, tries_again: bool = True) -> dsl.PipelineTask:
        task.set_caching_options(enable_caching=False)
        task.set_container_image(image)
        task.set_cpu_limit(_CPU).set_memory_limit(_MEMORY)
        task.set_env_variable("INSET_CORPORA", _CORPORA)
        kubernetes.use_config_map_as_volume(task, config_map, _CORPORA, optional=True)
        kubernetes.use_secret_as_env(task, secret, {name: name for name in _FROM_SECRET}, optional=True)
        return task.set_retry(_RETRIES, _FIRST_WAIT) if tries_again else task

    with dsl.ExitHandler(placed(release(corpus=corpus, run=run))):
        planned = placed(plan(corpus=corpus, run=run, groups=groups))
        version = planned.outputs["version"]
        with dsl.ParallelFor(planned.outputs["shards"]) as shards:
            before = placed(parse(corpus=corpus, run=run, version=version, shards=shards))
        for component in on_a_version:
            before = placed(component(corpus=corpus, run=run, version=version).after(before))
            if component.name == Stage.ENRICH:
                before.set_accelerator_type(_ACCELERATOR).set_accelerator_limit(planned.outputs["gpus"])
        # A refusal by a gate stays one, and Kubeflow can't tell it from a failure.
        placed(publish(corpus=corpus, run=run, version=version).after(before), tries_again=False)


if __name__ == "__main__":
    compiler.Compiler().compile(refresh, sys.argv[1] if len(sys.argv) > 1 else str(COMPILED))
