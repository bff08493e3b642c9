"""The command `threepass`: a file for each command, which imports what it needs once it runs."""

from __future__ import annotations

import gc

from .startup import begin


def main() -> None:
    """Run the command line."""
    begin()
    from .app import main as run

    try:
        run()
    finally:
        gc.freeze()  # so that the process ends without a look at all that was imported
