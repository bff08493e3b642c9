"""Errors a user can mend. Every message says what is wrong, what was found, and what to do."""

from __future__ import annotations


class ThreepassError(Exception):
    """The one class to catch: its text is a single line meant for the user, not a bug."""


class InputError(ThreepassError, ValueError):
    """The data or the parameters that were given cannot be used as they are."""


class StoreError(ThreepassError):
    """A store cannot be opened, read or written."""
