"""The command `threepass`: a file for each command."""

from __future__ import annotations

from . import startup


def main() -> None:
    """Run the command line."""
    startup.begin()
    from .app import main as run

    run()
