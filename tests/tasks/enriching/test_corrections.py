"""A person's own descriptions."""

import hashlib

import pytest

from schemas.tags import TagTemplate
from tasks.enriching.corrections import Corrections, CorrectionsError, match_corrections, parse_corrections

IDS = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(50)]
SHA1 = {figure_id: int(hashlib.sha1(figure_id.encode()).hexdigest(), 16) for figure_id in IDS}
TEMPLATE = TagTemplate()


def _number(figure_id: str, digits: int = 8) -> str:
    return f"{SHA1[figure_id] % 10**digits:0{digits}d}"


def _yaml(text: str) -> Corrections:
    return parse_corrections(text, TEMPLATE)


def test_a_figure_goes_by_its_id_a_beginning_or_its_tags_number() -> None:
    lines = [
        f"{IDS[0]}: The pump",
        f"{IDS[1][:8].upper()}: The valve",
        f'{_number(IDS[2])}: "The gauge: 6 bar"',
        f'"{TEMPLATE.write(_number(IDS[3]))}": |\n  The winch,\n  seen from above',
    ]
    read = _yaml("# ours\n" + "\n".join(lines))
    matched = match_corrections(read, SHA1.items())
    assert matched == {
        IDS[0]: "The pump",
        IDS[1]: "The valve",
        IDS[2]: "The gauge: 6 bar",
        IDS[3]: "The winch, seen from above",
    }


def test_the_digest_does_not_know_the_order() -> None:
    pump, valve = f"{IDS[0]}: The pump\n", f"{_number(IDS[1])}: The valve\n"
    assert _yaml(pump + valve).digest == _yaml(valve + pump).digest != _yaml(pump).digest
    assert _yaml("").digest == Corrections().digest


@pytest.mark.parametrize("name", ["00012345", "12345678", "0x1234ab", "12e45678", "01234567"])
def test_what_yaml_would_take_for_a_number_is_a_name(name: str) -> None:
    if "x" in name:
        with pytest.raises(CorrectionsError, match="names no figure"):
            _yaml(f"{name}: The pump")
    else:
        assert list(_yaml(f"{name}: 17").texts.items()) == [(name, "17")]


def test_leading_zeros_count() -> None:
    figure, digest = IDS[0], 900012345
    assert match_corrections(_yaml("00012345: The pump"), [(figure, digest)]) == {figure: "The pump"}
    assert match_corrections(_yaml("10012345: The pump"), [(figure, digest)]) == {}


def test_a_name_that_fits_several_figures_is_a_mistake_not_a_guess() -> None:
    alike = [("12345678" + "0" * 56, 1), ("12345678" + "1" * 56, 2)]
    with pytest.raises(
        CorrectionsError,
        match=r"line 1: 12345678 may be any of 2 figures, pages or texts; write more of its id: 123456780000",
    ):
        match_corrections(_yaml("12345678: The pump"), alike)
    by_number_and_id = [("12345678" + "0" * 56, 1), ("a" * 64, 99_12345678)]
    with pytest.raises(CorrectionsError, match="any of 2 figures"):
        match_corrections(_yaml("12345678: The pump"), by_number_and_id)
    widened = [("a" * 64, 5_12345678), ("b" * 64, 6_12345678)]
    matched = match_corrections(_yaml("512345678: The pump\n612345678: The valve"), widened)
    assert matched == {"a" * 64: "The pump", "b" * 64: "The valve"}


def test_a_figure_that_comes_again_is_no_other() -> None:
    again = [*SHA1.items(), *SHA1.items()]
    assert match_corrections(_yaml(f"{IDS[0]}: The pump"), again) == {IDS[0]: "The pump"}


def test_two_names_of_one_figure_must_agree() -> None:
    read = _yaml(f"{IDS[0]}: The pump\n{_number(IDS[0])}: The valve")
    with pytest.raises(CorrectionsError, match="line 2: this is what line 1 names, with other words"):
        match_corrections(read, SHA1.items())
    assert match_corrections(_yaml(f"{IDS[0]}: The pump\n{IDS[0][:9]}: The pump"), SHA1.items())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Figure 1: The pump", "line 1: 'Figure 1' names no figure"),
        ("abc123: The pump", "names no figure; write its id"),
        ("- a\n- b", "isn't a mapping"),
        ("12345678:\n  text: The pump", "line 1: write a figure, a colon"),
        ("12345678:", "line 1: there is no description"),
        ("12345678: ''", "no description"),
        ("12345678: a\n12345678: b", "line 2: figure 12345678 stands in line 1 already"),
        ("12345678: a\nABCDEF12: b\nabcdef12: c", "line 3: figure abcdef12 stands in line 2"),
        ("12345678: [a", "line [12]: this is not YAML"),
        ("12345678: 'a\x07'", "not YAML: [^\n]*$"),
    ],
)
def test_a_mistake_has_its_line(text: str, says: str) -> None:
    with pytest.raises(CorrectionsError, match=says):
        _yaml(text)


def test_all_mistakes_at_once_but_not_thousands() -> None:
    with pytest.raises(CorrectionsError) as raised:
        _yaml("\n".join(f"here{number}: a" for number in range(30)))
    assert len(raised.value.args) == 11
    assert raised.value.args[-1] == "20 more mistakes"
