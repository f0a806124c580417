"""Citations and their links."""

from urllib.parse import parse_qs, urlsplit

from schemas.evidence import CitedRegion, Hit
from tasks.answering.cite import MOST_BOXES, citation
from tests.tasks.answering.hits import made_hit

DOC = "d" * 64


def _hit(*regions: CitedRegion) -> Hit:
    changes = {"source": "a/manual.pdf", "page": 6, "bbox": (10, 20, 30, 40), "section_path": ["Turning", "Touch off"]}
    return made_hit("e", "", title="Lathe manual", regions=list(regions), **changes)


def test_links_show_the_regions_of_the_cited_page_in_the_cited_version() -> None:
    regions = [
        CitedRegion(page=6, bbox=(10, 20, 30, 40), label="iv"),
        CitedRegion(page=6, bbox=(1.25, 2, 3, 4), label="iv"),
        CitedRegion(page=7, bbox=(5, 6, 7, 8), label="v"),
    ]
    cited = citation(_hit(*regions), 2, corpus="manuals", version="20260101T000000Z-abc")
    picture, pdf = urlsplit(cited.page_link), urlsplit(cited.pdf_link)
    assert picture.path == f"/v1/corpora/manuals/documents/{DOC}/pages/6.png"
    assert parse_qs(picture.query) == {
        "box": ["10.0,20.0,30.0,40.0", "1.2,2.0,3.0,4.0"],
        "version": ["20260101T000000Z-abc"],
    }
    assert (pdf.path, pdf.fragment) == (f"/v1/corpora/manuals/documents/{DOC}.pdf", "page=6")
    assert parse_qs(pdf.query) == {"version": ["20260101T000000Z-abc"]}
    assert (cited.n, cited.title, cited.label, cited.page, cited.section_path) == (
        2,
        "Lathe manual",
        "iv",
        6,
        ["Turning", "Touch off"],
    )


def test_a_hit_without_regions_shows_its_box_and_one_of_many_shows_as_many_as_a_page_takes() -> None:
    cited = citation(_hit(), 1, corpus="manuals", version="v")
    assert parse_qs(urlsplit(cited.page_link).query)["box"] == ["10.0,20.0,30.0,40.0"]
    many = citation(_hit(*[CitedRegion(page=6, bbox=(0, 0, 1, 1))] * 60), 1, corpus="manuals", version="v")
    assert len(parse_qs(urlsplit(many.page_link).query)["box"]) == MOST_BOXES
