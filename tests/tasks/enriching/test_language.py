"""The language of a document, by the packaged detector."""

import pytest

from backends.models.languages import Py3LangId
from schemas.documents import Chunk
from schemas.filters import Modality
from tasks.enriching.language import language_of

DETECTOR = Py3LangId()
GERMAN = "Die Sicherheitsventile sind einmal im Jahr zu prüfen, undichte Ventile werden ersetzt."
FRENCH = "Les soupapes de sécurité doivent être vérifiées une fois par an et remplacées si nécessaire."
CODE = 'for (int i = 0; i < argc; ++i) { printf("%s\\n", argv[i]); } return EXIT_SUCCESS; /* main.c */'


def rows(*texts: str, modality: Modality = Modality.TEXT) -> list[Chunk]:
    return [Chunk(number, modality, (), (), text, text, ()) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        ([GERMAN], "de"),
        ([GERMAN] * 3 + [CODE, FRENCH], "de"),
        ([FRENCH] * 200 + [GERMAN] * 50, "fr"),
        (["请在更换冷却水泵之前关闭电源。更换完成后，请检查管道是否漏水，并记录更换日期，然后通知维护人员。"], "zh"),
        ([GERMAN, FRENCH, "Перед заменой насоса отключите питание и проверьте трубы."], None),
        (["§ 1.2", "WCP-3200-B 4711", ""], None),
        ([], None),
    ],
)
def test_the_language_that_most_passages_are_in(texts: list[str], language: str | None) -> None:
    assert language_of(rows(*texts), DETECTOR) == language


def test_tables_and_figures_are_no_evidence() -> None:
    assert language_of(rows(FRENCH, modality=Modality.TABLE) + rows(GERMAN), DETECTOR) == "de"
