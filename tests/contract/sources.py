"""What a place of one's own (entry point ``inset.sources``) has to keep; packages that add one call it in their tests, too."""

from itertools import chain

from backends.stores.places import Source
from schemas.printing import without_secrets


def faults_of(source: Source) -> list[str]:
    """Return what a source does against its contract; [] if it keeps it."""
    files = [*source.list()]
    names = [file.source for file in files]
    by_name = {file.source: file for file in source.list()}
    faults = ["it lists no file: give it one or more"] if not files else []
    faults += [f"{name!r} is listed twice" for name in sorted({*names}) if names.count(name) > 1]
    for name in names:
        if not name or name.startswith("/") or {"", ".", ".."} & {*name.split("/")}:
            faults.append(f"{name!r} is no path below the source")
    faults += [
        f"{file.source!r} has another size or stamp in a second listing"
        for file in files
        if by_name.get(file.source) != file
    ]
    for file in chain(files[:3], files[-1:]):
        if file.problem is None and file.size not in (None, len(source.read(file.source))):
            faults.append(f"{file.source!r} is listed with {file.size} bytes, and read with another number")
    try:
        source.read("no/such/file.pdf")
        faults.append("a file that isn't there can be read")
    except FileNotFoundError:
        pass
    except Exception as error:  # noqa: BLE001  any other error is the fault
        faults.append(f"a file that isn't there raises {type(error).__name__}, not FileNotFoundError")
    described = source.describe()
    if not described or "\n" in described or described != without_secrets(described):
        faults.append("describe() is one line, without passwords and queries")
    return faults
