"""What the models make of a few fixed texts and pictures: their own weights where they are packaged, drawn by a seed elsewhere.

What goes in is digested as far as keys cover it. A release of torch draws other weights by the same seed, so it counts there.
"""

import functools
import importlib.metadata
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
from PIL import Image, ImageDraw, ImageFont

from backends.models import clip, late_interaction
from backends.models.clip import combine
from backends.models.endpoint import Endpoint
from backends.models.languages import Py3LangId, Simplemma
from backends.models.local_model import LocalModel
from backends.models.minilm import MiniLM
from backends.models.multilingual import MultilingualE5
from backends.models.pictures import fit, open_picture
from backends.models.rapidocr_recogniser import (
    EXACT,
    LARGEST_SIDE_PX,
    LEAST_SIDE_PX,
    LEAST_WIDTH_PX,
    LINE_HEIGHT_PX,
    PARAMETERS,
    RapidOcr,
)
from backends.models.registry import IMAGE_EMBEDDERS, LATE_EMBEDDERS, TEXT_EMBEDDERS
from schemas.corpus.models import EndpointOptions, EntryKind, ModelEntry
from schemas.errors import InsetError
from schemas.geometry import BBox
from schemas.models import MINILM, MULTILINGUAL, ModelName, Reply, Request
from schemas.ports import TextEmbedder
from tests import endpoint_server, tiny_vlm
from tests.manuals import picture, sentence
from tests.pins import Near, Outputs, digest
from tests.tiny_models import draw, png, write_bert, write_clip, write_colqwen2

OF_A_UNIT_VECTOR = 0.002
"""How far off a number of 384 may be: all of them together leave a cosine above 0.999."""

OF_A_BOX = 3.0
"""Pixels, of pictures that may be scaled down, and hundredths of a score."""

OF_A_REGION = 1.0
"""Likewise, of a page at the size at which the model looks at it."""

SURE = 12.0
"""Hundredths of a score: regions between the least score that counts and this come and go with a processor's last bits."""

TEXTS = {
    "nothing": "",
    "a word": "pump",
    "a sentence": "Turn the valve until it clicks, then check the seal (part 4-711).",
    "other scripts": "Straße naïve 请更换冷却水泵 مضخة",
    "more than it takes": " ".join(sentence(seed) for seed in range(40)),
}


def _written(image: Image.Image, kind: str, **how: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **how)
    return file.getvalue()


@functools.cache
def _pictures() -> dict[str, bytes]:
    """Return pictures of all kinds that are made ready in ways of their own."""
    base = Image.open(io.BytesIO(draw(3))).convert("RGB")
    wide = base.resize((4300, 700), Image.Resampling.BICUBIC)
    clear = base.resize((2600, 500), Image.Resampling.BICUBIC).convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    return {
        "small": draw(1),
        "grey": _written(base.convert("L"), "PNG"),
        "strip": png(base.resize((400, 3))),
        "photograph": _written(wide, "JPEG", quality=95),
        "small photograph": _written(base, "JPEG", quality=95),
        "clear": _written(clear, "PNG"),
    }


def _seen(data: bytes) -> list[object]:
    """Return what a picture shows, however it is compressed: that differs between processors."""
    with Image.open(io.BytesIO(data)) as image:
        return [image.mode, *_pixels(image)]


def _pixels(image: Image.Image) -> list[object]:
    return [*image.size, np.asarray(image).tobytes()]


def _releases(*packages: str) -> list[str]:
    return [importlib.metadata.version(package) for package in packages]


def _vectors(vectors_by_name: dict[str, Any]) -> Near:
    rows = [
        (name if len(matrix) == 1 else f"{name}, {number}", [float(value) for value in vector])
        for name, vectors in vectors_by_name.items()
        for matrix in [np.atleast_2d(vectors)]
        for number, vector in enumerate(matrix)
    ]
    return Near(rows, OF_A_UNIT_VECTOR, places=3)


def _minilm(_folder: Path) -> Outputs:
    return _embedded(MiniLM(1), ModelName(MINILM), 254)


def _multilingual(_folder: Path) -> Outputs:
    return _embedded(MultilingualE5(1), ModelName(MULTILINGUAL), 510)


def _embedded(model: TextEmbedder, model_name: ModelName, most_tokens: int) -> Outputs:
    texts = [*TEXTS.values()]
    counts = TEXT_EMBEDDERS.find(model_name).token_counter()(texts)
    vectors = dict(zip(TEXTS, model.embed_documents(texts), strict=True)) | {"a question": model.embed_query("Which pump?")}
    return {
        "texts": (digest(TEXTS), _vectors(vectors)),
        "tokens": (digest(TEXTS), digest([most_tokens, counts])),
    }


def _dialog(scale: int, size: tuple[int, int] = (480, 200), mode: str = "RGB") -> Image.Image:
    image = Image.new(mode, (size[0] * scale, size[1] * scale), (255, 255, 255, 0)[: len(mode)])
    font = ImageFont.load_default(20 * scale)
    for text, (x, y) in (("Print Quality", (30, 20)), ("Draft mode 300 dpi", (30, 80)), ("Cancel", (340, 150))):
        ImageDraw.Draw(image).text((x * scale, y * scale), text, fill=(0, 0, 0, 255)[: len(mode)], font=font)
    return image


def _around(box: BBox, score: float) -> list[float]:
    return [*box, 100 * score]


def _rapidocr(_folder: Path) -> Outputs:
    model = RapidOcr()
    dialogs = {
        "dialog": _dialog(1),
        "large dialog": _dialog(6),
        "clear dialog": _dialog(1, mode="RGBA"),
        "a line": _dialog(1, (480, 60)),
        "too low to read": _dialog(2).resize((480, 11)),
        "nothing": Image.new("RGB", (300, 200), "white"),
    }
    # Clean words read alike by many settings.
    settings = [LEAST_SIDE_PX, LARGEST_SIDE_PX, LINE_HEIGHT_PX, LEAST_WIDTH_PX, PARAMETERS, EXACT]
    return {"settings": (digest(""), digest(settings))} | {
        name: (
            digest(_pixels(image)),
            Near([(line.text, _around(line.bbox, line.score)) for line in model.recognise(png(image))], OF_A_BOX),
        )
        for name, image in dialogs.items()
    }


def _page() -> "pymupdf.Document":
    document = pymupdf.open()
    sheet = document.new_page(width=595, height=842)
    sheet.insert_text((72, 66), "4 The pump and its parts", fontsize=18, fontname="hebo")
    for number, top in enumerate((80, 480)):
        text = " ".join(sentence(10 * number + line) for line in range(6))
        sheet.insert_textbox((72, top, 523, top + 160), text, fontsize=11)
    sheet.insert_image((150, 250, 450, 450), stream=picture(3, 300, 200))
    sheet.insert_text((200, 466), "Figure 1: The pump seen from above", fontsize=10)
    for row in range(6):
        for column in range(3):
            box = pymupdf.Rect(100 + 130 * column, 620 + 24 * row, 230 + 130 * column, 644 + 24 * row)
            sheet.draw_rect(box)
            sheet.insert_text((box.x0 + 6, box.y0 + 16), f"{row}.{column} Nm", fontsize=10)
    return document


_LANGUAGES = {
    "en": "Turn the valve until it clicks, then check the seal.",
    "de": "Drehen Sie das Ventil, bis es einrastet, und prüfen Sie die Dichtung.",
    "nl": "Draai de klep tot hij klikt en controleer de afdichting.",
    "ja": "プリンターの設定を変更する",
    "short": "OK",
    "nothing": "",
}


def _language(_folder: Path) -> Outputs:
    model = Py3LangId()
    guesses = {name: [*model.probabilities(text).items()][:1] for name, text in _LANGUAGES.items()}
    return {
        name: (digest(_LANGUAGES[name]), Near([(code, [100 * share]) for code, share in likeliest], OF_A_BOX))
        for name, likeliest in guesses.items()
    }


def _lexicon(_folder: Path) -> Outputs:
    model = Simplemma()
    outputs: dict[str, tuple[str, str]] = {}
    for name, text in _LANGUAGES.items():
        language = model.language_of(text)
        are_words = [model.is_word(word, language) for word in text.lower().split()] if language is not None else None
        outputs[name] = digest(text), digest([language, are_words])
    return outputs


def _unhurried() -> None:
    """Let torch compute in one thread: with so little to do, several only wait for each other."""
    import torch

    torch.set_num_threads(1)


def _named(folder: Path, **settings: str | float) -> ModelName:
    return ModelName(str(folder), "1", tuple(sorted(settings.items())))


def _looked_at(largest_side: int, ready: Callable[[bytes, int], Image.Image] = open_picture) -> tuple[str, str]:
    pictures = _pictures()
    inputs = [[name, _seen(data)] for name, data in pictures.items()]
    return digest(inputs), digest([_pixels(ready(data, largest_side)) for data in pictures.values()])


def _clip(folder: Path) -> Outputs:
    _unhurried()
    model = IMAGE_EMBEDDERS.find(_named(write_clip(folder))).load(4)
    pictures = _pictures()
    vectors: dict[str, Any] = dict(zip(pictures, model.embed_pictures([*pictures.values()]), strict=True))
    vectors |= dict(zip(TEXTS, model.embed_documents([*TEXTS.values()]), strict=True))
    vectors |= {"a question": model.embed_query("Which pump?"), "a picture asked by": model.embed_query_picture(draw(2))}
    input_digest = digest([[_seen(data) for data in pictures.values()], TEXTS, _releases("torch", "open_clip_torch")])
    return {
        "pictures and texts": (input_digest, _vectors(vectors)),
        "pictures made ready": _looked_at(clip.LARGEST_SIDE_PX),
    }


def _unified(folder: Path) -> Outputs:
    pictures, words = np.eye(4, dtype=np.float32)[:2], np.full((2, 4), 0.5, np.float32)
    combined = {
        f"{how}, {weight}": combine(pictures, words, how=how, image_weight=weight)
        for how in ("mean", "concatenation")
        for weight in (0.25, 0.5, 1.0)
    }
    _unhurried()
    model = IMAGE_EMBEDDERS.find(_named(write_clip(folder), combine="mean", image_weight=0.25)).load(2)
    vectors = {
        "a pair": model.embed_pairs([draw(1)], ["a pump"]),
        "a question": model.embed_query("Which pump?"),
        "a picture asked by": model.embed_query_picture(draw(2)),
    }
    return {
        "combined": (digest(["unit vectors"]), _vectors(combined)),
        "pairs": (digest(_releases("torch", "open_clip_torch")), _vectors(vectors)),
    }


def _late(folder: Path) -> Outputs:
    _unhurried()
    model = LATE_EMBEDDERS.find(_named(write_colqwen2(folder))).load(2)
    vectors = {
        "a picture": model.embed_pictures([draw(2, 90, 60)])[0][::8],
        "a question": model.embed_query("Which pump?"),
        "a picture asked by": model.embed_query_picture(draw(1))[::8],
    }
    input_digest = digest([_seen(draw(2, 90, 60)), _seen(draw(1)), _releases("torch", "transformers")])
    return {
        "pictures and questions": (input_digest, _vectors(vectors)),
        "pictures made ready": _looked_at(late_interaction.LARGEST_SIDE_PX),
    }


def _sentence_transformer(folder: Path) -> Outputs:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    _unhurried()
    words = Transformer(str(write_bert(folder / "bert")), max_seq_length=64)
    SentenceTransformer(modules=[words, Pooling(32)], device="cpu").save(str(folder / "model"))
    model_name = _named(folder / "model", document_prompt="text: ", query_prompt="question: ")
    model = TEXT_EMBEDDERS.find(model_name).load(2)
    vectors: dict[str, Any] = dict(zip(TEXTS, model.embed_documents([*TEXTS.values()]), strict=True))
    vectors["a question"] = model.embed_query("Which pump?")
    return {"texts": (digest([TEXTS, _releases("torch", "sentence-transformers", "transformers")]), _vectors(vectors))}


def _requests() -> Iterator[Request]:
    yield Request.of(request_id="words", prompt="What is it?\n\nCaption: a pump", picture=None)
    for name, data in _pictures().items():
        yield Request.of(request_id=name, prompt=f"What is it? It is {name}.", picture=data)


def _given(requests: Sequence[Request]) -> list[object]:
    return [
        [request.id, message.text, _seen(message.pictures[0]) if message.pictures else None]
        for request in requests
        for message in request.messages
    ]


def _local_vlm(folder: Path) -> Outputs:
    _unhurried()
    options = ModelEntry.model_validate(
        {"kind": "local", "model": str(tiny_vlm.write(folder)), "revision": "1", "max_tokens": 6, "max_side_px": 256}
    )
    requests = [*_requests()][:3]
    replies = dict(LocalModel("models.tiny", options, 2).replies(requests))
    input_digest = digest([_given(requests), _releases("torch", "transformers")])
    return {
        "replies": (input_digest, digest([_taken(replies[request.id]) for request in requests])),
        "pictures made ready": _looked_at(256, fit),
    }


def _taken(outcome: Reply | InsetError) -> object:
    if isinstance(outcome, Reply):
        return [outcome.text, outcome.complete]
    return [type(outcome).__name__, str(getattr(outcome, "code", ""))]


_ANSWERS = (
    "It shows a pump.",
    "  Two lines,\nand white space around.\n\n",
    endpoint_server.answer("It ends in the middle of a", finish_reason="length"),
    endpoint_server.answer("", finish_reason="length"),
    endpoint_server.answer(None, refusal="I can't help with that."),
    endpoint_server.answer("What a filter left", finish_reason="content_filter"),
    "Pump.",
)


def _endpoint(_folder: Path) -> Outputs:
    requests = [*_requests()]
    with endpoint_server.running() as server:
        server.script(*_ANSWERS)
        options = ModelEntry(
            kind=EntryKind.VLM,
            model="acme/vlm",
            revision="1",
            max_side_px=512,
            endpoint=EndpointOptions(url=server.url, concurrency=1, retries=0),
        )
        replies = dict(Endpoint("models.vlm", options).replies(requests))
        sent = [_sent(call.json, call.picture) for call in server.calls]
    input_digest = digest(_given(requests))
    return {
        "what it is sent": (input_digest, digest(sent)),
        "what is taken": (digest(_ANSWERS), digest([_taken(replies[request.id]) for request in requests])),
    }


def _endpoint_embedder(_folder: Path) -> Outputs:
    with endpoint_server.running() as server:
        entry = ModelEntry(
            kind=EntryKind.TEXT_EMBEDDER,
            model="acme/embed",
            revision="1",
            dimension=16,
            shorten=True,
            document_prompt="passage: ",
            query_prompt="query: ",
            endpoint=EndpointOptions(url=server.url, concurrency=1, retries=0),
        )
        model_name = entry.text_model("models.text")
        outputs = _embedded(TEXT_EMBEDDERS.find(model_name).load(2), model_name, 8191)
        sent = [call.json for call in server.calls]
    return {**outputs, "what it is sent": (digest(TEXTS), digest(sent))}


def _sent(message: dict[str, Any], data: bytes | None) -> object:
    """Return a call as it arrived, its picture by what it shows and how it is compressed."""
    parts = [
        part if part["type"] == "text" else part["image_url"]["url"].partition(",")[0]
        for entry in message["messages"]
        for part in entry["content"]
    ]
    if data is None:
        return [message | {"messages": parts}]
    with Image.open(io.BytesIO(data)) as image:
        tables = getattr(image, "quantization", None)
    return [message | {"messages": parts}, _seen(data), tables]


MODELS: dict[str, tuple[Callable[[Path], Outputs], str]] = {
    "minilm": (_minilm, "backends.models.minilm:SETTINGS_VERSION"),
    "multilingual": (_multilingual, "backends.models.multilingual:SETTINGS_VERSION"),
    "rapidocr": (_rapidocr, "backends.models.rapidocr_recogniser:SETTINGS_VERSION"),
    "language detector": (_language, "backends.models.languages:DETECTION_VERSION"),
    "lexicon": (_lexicon, "backends.models.languages:LEXICON_VERSION"),
    "clip": (_clip, "backends.models.clip:SETTINGS_VERSION"),
    "unified": (_unified, "backends.models.clip:SETTINGS_VERSION"),
    "late interaction": (_late, "backends.models.late_interaction:SETTINGS_VERSION"),
    "sentence transformer": (_sentence_transformer, "backends.models.sentence_transformer:SETTINGS_VERSION"),
    "local vlm": (_local_vlm, "backends.models.local_model:SETTINGS_VERSION"),
    "endpoint": (_endpoint, "backends.models.endpoint:SETTINGS_VERSION"),
    "endpoint embedder": (_endpoint_embedder, "backends.models.endpoint_embedder:SETTINGS_VERSION"),
}
"""Each model: what it makes, and where its version is."""
