"""The command `threepass`: a file for each command, which imports what it needs once it runs."""

from __future__ import annotations

from .startup import begin


def main() -> None:
    """Run the command line."""
    begin()
    from .app import main as run

    run()
