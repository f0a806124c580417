"""A small PDF whose page takes very long to draw, and no time to read."""


def transparency_bomb(depth: int = 6, calls: int = 4) -> bytes:
    """Return a page of transparency groups that hold transparency groups: drawing it takes ``calls ** depth`` sheets.

    With the defaults that are about half a minute at 110 dpi; its text is read in no time.
    """
    words = b"BT /F 12 Tf 72 760 Td (The pump takes nine bar.) Tj ET /X Do"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources"
        b"<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>/XObject<</X 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(words), words),
    ]
    for level in range(depth):
        inner, resources = b"0.5 g 0 0 595 842 re f", b""
        if level < depth - 1:
            inner = b"/G gs" + b" /X Do" * calls
            resources = b"/Resources<</ExtGState<</G<</ca .9/BM/Multiply>>>>/XObject<</X %d 0 R>>>>" % (6 + level)
        head = b"<</Type/XObject/Subtype/Form/BBox[0 0 595 842]/Group<</S/Transparency/I true>>"
        objects.append(head + b"%s/Length %d>>stream\n%s\nendstream" % (resources, len(inner), inner))
    data, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + end
