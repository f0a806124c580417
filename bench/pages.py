"""Pages that were misread once: ``python -m bench.pages --scorer FILE``.

The scorer is a program, ``SCORER PROJECT``, that tries small PDFs on a checkout and prints ``holds`` or ``FAILS`` for each.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run the scorer on this checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scorer", type=Path, required=True)
    given = parser.parse_args()
    subprocess.run([sys.executable, given.scorer, Path(__file__).parent.parent], check=True)


if __name__ == "__main__":
    main()
