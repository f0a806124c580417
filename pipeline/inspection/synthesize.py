"""Write synthetic manuals with ground truth and questions into a folder."""

from collections.abc import Sequence
from pathlib import Path

from evaluation.synthetic import PRESETS, synthesize
from schemas.errors import UserError


def write_manuals(out: Path, *, preset: str, seeds: Sequence[int], pages: int) -> list[Path]:
    """Write ``<preset>-<seed>.pdf`` and ``.truth.json`` for each seed, and ``questions.jsonl`` for all of them.

    Args:
        out: The folder; existing files are overwritten.
        preset: One of ``evaluation.synthetic.PRESETS``.
        seeds: One per manual.
        pages: Pages per manual.

    Returns:
        The files, questions last.

    Raises:
        UserError: There is no such preset, or the folder can't be written.
    """
    if preset not in PRESETS:
        raise UserError(f"--preset {preset}: use one of {', '.join(PRESETS)}")
    files: list[Path] = []
    questions: list[str] = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            name = f"{preset}-{seed}"
            manual = synthesize(name, seed=seed, pages=pages, options=PRESETS[preset])
            pdf, truth = out / f"{name}.pdf", out / f"{name}.truth.json"
            pdf.write_bytes(manual.pdf)
            truth.write_text(manual.truth.model_dump_json(indent=1) + "\n", encoding="utf-8")
            files += [pdf, truth]
            questions += [question.model_dump_json() for question in manual.questions]
        files.append(out / "questions.jsonl")
        files[-1].write_text("\n".join(questions) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write to {out}: {error.strerror}") from error
    return files
