"""Run a benchmark by its name: `python -m benchmarks NAME ...` is `python -m benchmarks.NAME ...`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def names() -> list[str]:
    """The modules that can be run."""
    files = sorted(Path(__file__).parent.glob("[!_]*.py"))
    return [file.stem for file in files if '__name__ == "__main__"' in file.read_text()]


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in names():
        sys.exit(f"usage: python -m benchmarks NAME [OPTIONS]; NAME is one of {', '.join(names())}")
    sys.argv[:2] = [f"benchmarks.{name}"]
    import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
