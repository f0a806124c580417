"""Choose what an OCR model must look at."""

from schemas.documents import Kind, ParsedDocument, Role


def pictures_to_recognise(document: ParsedDocument) -> list[str]:
    """Return the ids of figures whose words the PDF itself doesn't tell: pixels, scanned pages, drawings without text.

    Each id once, sorted; icons and decoration are left out, since their words answer nothing.
    """
    labelled = {line.inside for line in document.lines if line.inside is not None}
    return sorted(
        {
            placement.figure_id
            for placement in document.placements
            if placement.figure_id is not None
            and placement.role in (Role.CONTENT, Role.PAGE_SCAN)
            and not (placement.kind is Kind.VECTOR and placement.order in labelled)
        }
    )
