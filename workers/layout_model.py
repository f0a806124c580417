"""Load the layout model, when the fork server imports this: its children share it, instead of loading it for each document."""

import contextlib

from backends.pdf.page import TEXT_MODEL, layout_model

with contextlib.suppress(Exception):  # without the model, rules read the pages
    layout_model(TEXT_MODEL)
