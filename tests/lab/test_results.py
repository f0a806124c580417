"""Scores of judges together."""

from lab.outcomes import Grade
from lab.results import together


def test_modalities_are_averaged_over_those_that_an_outcome_has() -> None:
    def grades(*values: float | None) -> list[Grade]:
        return [Grade(value=value) for value in values]

    judges = {
        "one": {"text_faithfulness": grades(1.0, 0.0, None), "image_faithfulness": grades(0.0, None, None)},
        "two": {"text_faithfulness": grades(0.0, 0.0, None)},
    }
    found = together(judges)
    assert found["text_faithfulness"] == [0.5, 0.0, None]
    assert found["faithfulness"] == [0.25, 0.0, None]
    assert "context_relevancy" not in found
