"""In which language a text is."""

import pytest

from backends.models.languages import Py3LangId


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Close the inlet before you open the valve, and wait until the gauge shows no pressure.", "en"),
        ("Schließen Sie den Zulauf, bevor Sie das Ventil öffnen, und warten Sie.", "de"),
        ("Fermez l'arrivée d'eau avant d'ouvrir la soupape, et attendez.", "fr"),
        ("最初に給水を止め、圧力計の圧力がなくなるまで待ってください。", "ja"),
        ("首先关闭进水口，等到压力表不再显示压力为止。", "zh"),
        ("Сначала закройте подачу воды и подождите.", "ru"),
    ],
)
def test_the_likeliest_language_comes_first(text: str, code: str) -> None:
    probabilities = Py3LangId().probabilities(text)
    assert next(iter(probabilities)) == code
    assert sum(probabilities.values()) == pytest.approx(1)
    assert list(probabilities.values()) == sorted(probabilities.values(), reverse=True)


def test_no_text_is_in_no_language() -> None:
    assert max(Py3LangId().probabilities("").values()) < 0.1
