"""What reading a model's reply costs: ``python -m bench.answer_stream [--json]``.

A scripted model writes a procedure of cited steps with their figures, four characters at a time. Timed are the first words and
the first figure that a reader is sent, from the first visible token on, and replies of 0.25 to 2 MB, which take time linear in
their length. Tokens come without waiting, so all time is the reader's.
"""

import time
from collections.abc import Iterator
from statistics import median

from bench.table import Row, show
from schemas.answers import PartFinished, TextDelta
from schemas.evidence import CitedFigure, CitedRegion, Hit
from schemas.filters import Modality
from schemas.tags import TagTemplate
from tasks.answering.compose import ModelInput, answer_prompts, compose
from tasks.answering.read_reply import ReplyReader

PASSAGES = 4
TOKEN = 4
TRIES = 200
SIZES_MB = (0.25, 0.5, 1, 2)
FIRST_MS = "at most 50 ms"


def main() -> None:
    """Time the first words, the first figure and long replies."""
    sent = _sent()
    step = "".join(
        f"{n}. Loosen screw {n} of the cover, and keep it [P{n}].\n[IMG-{digits}]\n"
        for n, digits in enumerate(sent.figures, 1)
    )
    thought = f"<think>The passages {'say how to open the cover. ' * 20}</think>\n"
    rows = [
        Row(f"first words, {name}", "ms", median(_first(sent, reply, TextDelta) for _ in range(TRIES)), goal=FIRST_MS)
        for name, reply in (("at once", step), ("behind thoughts", thought + step))
    ]
    rows.append(
        Row("first whole part", "ms", median(_first(sent, step, PartFinished) for _ in range(TRIES)), goal=FIRST_MS)
    )
    show("from the model's first visible token to what a reader sees", rows)
    shapes = {"a procedure": step, "names of no figure": "[IMG-00000] ", "blank lines": "\n", "brackets": "[", "stars": "*"}
    for name, text in shapes.items():
        for size, kind in ((TOKEN, "tokens"), (1, "characters")):
            timed = {mb: _whole(sent, text, round(mb * 1e6), size) for mb in SIZES_MB}
            least = timed[SIZES_MB[0]] / SIZES_MB[0]
            show(
                f"{name}, in {kind}",
                [Row(f"{mb} MB", "s", took, least * mb, "linear", "ratio near 1") for mb, took in timed.items()],
            )


def _sent() -> ModelInput:
    hits = []
    for n in range(1, PASSAGES + 1):
        figure = CitedFigure(figure_id=f"{n}" * 64, number=f"1234567{n}", caption=f"Screw {n}", page=n, bbox=(0, 0, 9, 9))
        hits.append(
            Hit(
                evidence_id=f"e{n}",
                score=1.0,
                modality=Modality.TEXT,
                doc_id="d" * 64,
                source="pump.pdf",
                page=n,
                bbox=(0, 0, 1, 1),
                regions=[CitedRegion(page=n, bbox=(0, 0, 1, 1))],
                section_path=["Service"],
                text=f"Loosen screw {n}.",
                tagged_text=f"Loosen screw {n}. <image:1234567{n}.png>",
                figure_refs=[figure.figure_id],
                figures=[figure],
                caption="",
            )
        )
    return compose("How is the cover opened?", hits, answer_prompts()["written"], TagTemplate(), context_chars=9000)


def _tokens(reply: str, size: int) -> Iterator[str]:
    return (reply[start : start + size] for start in range(0, len(reply), size))


def _first(sent: ModelInput, reply: str, kind: type[TextDelta] | type[PartFinished]) -> float:
    """Return milliseconds from the first visible token to the first event of a kind."""
    reader = ReplyReader(sent)
    visible = reply.rfind("</think>") + 1
    seen, started = 0, time.perf_counter()
    for token in _tokens(reply, TOKEN):
        if seen < visible:
            started = time.perf_counter()
        seen += len(token)
        if any(isinstance(event, kind) for event in reader.feed(token)):
            return (time.perf_counter() - started) * 1e3
    raise AssertionError("the reader shows nothing")


def _whole(sent: ModelInput, text: str, length: int, size: int) -> float:
    """Return the seconds that a reply takes that repeats a text."""
    reply = (text * (length // len(text) + 1))[:length]
    reader, started = ReplyReader(sent), time.perf_counter()
    for token in _tokens(reply, size):
        reader.feed(token)
    reader.close()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
