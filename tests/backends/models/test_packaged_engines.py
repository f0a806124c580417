"""OCR: an engine that comes in a package."""

import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from PIL import Image, ImageDraw, ImageFont

from backends.models import rapidocr_recogniser
from schemas.errors import BadInputError, ContractError, FailureCode

NO_NETWORK = """
import socket, sys
def refuse(*_args): raise AssertionError("a model was looked for on the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from {module} import {kind}
print(len({kind}().{method}(sys.stdin.buffer.read())))
"""


class Engine(NamedTuple):
    module: Any
    make: Callable[[], Any]
    name: str
    method: str
    pinned: str
    key: str


ENGINES = (Engine(rapidocr_recogniser, rapidocr_recogniser.RapidOcr, "RapidOcr", "recognise", "DETECTOR", "ocr"),)


def page() -> bytes:
    image = Image.new("RGB", (600, 800), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(20)
    for row in range(12):
        draw.text((60, 60 + 30 * row), "The pump is seen from above", fill="black", font=font)
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


@pytest.fixture(scope="module", params=ENGINES, ids=[engine.key for engine in ENGINES])
def engine(request: pytest.FixtureRequest) -> Engine:
    packaged_engine: Engine = request.param
    return packaged_engine


@pytest.mark.parametrize("data", [b"", b"not a picture", page()[:1000]])
def test_broken_pictures_are_bad_input(engine: Engine, data: bytes) -> None:
    with pytest.raises(BadInputError) as caught:
        getattr(engine.make(), engine.method)(data)
    assert caught.value.code is FailureCode.IMAGE_REJECTED


@pytest.mark.parametrize(
    ("why", "code"),
    [("unexpected input shape", FailureCode.MODEL_FAILED), ("bad allocation", FailureCode.MODEL_CRASHED)],
    ids=["the picture's fault", "out of memory"],
)
def test_errors_of_the_engine_are_bad_input(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, why: str, code: FailureCode
) -> None:
    def fail(_pixels: object, **_options: object) -> None:
        raise RuntimeError(f"traceback\nonnxruntime: {why}")

    model = engine.make()
    monkeypatch.setattr(model, "_engine", fail)
    with pytest.raises(BadInputError, match=why) as caught:
        getattr(model, engine.method)(page())
    assert caught.value.code is code


def test_works_without_a_network_and_prints_nothing(engine: Engine) -> None:
    script = NO_NETWORK.format(module=engine.module.__name__, kind=engine.name, method=engine.method)
    process = subprocess.run([sys.executable, "-c", script], input=page(), capture_output=True, check=False)
    assert int(process.stdout) >= 1, process.stderr.decode()
    assert process.stderr == b""


def test_other_models_are_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = getattr(engine.module, engine.pinned)
    for name, message in ((file, "pinned is 000000000000"), ("absent.onnx", "no file")):
        monkeypatch.setattr(engine.module, engine.pinned, (name, "0" * 64))
        with pytest.raises(ContractError, match=message):
            engine.make()


def test_the_card_needs_no_engine(engine: Engine) -> None:
    heavy = {"rapidocr", "cv2", "PIL"}
    script = f"import sys, {engine.module.__name__}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
