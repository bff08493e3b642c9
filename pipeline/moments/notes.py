"""Notes on a fit: facts worth knowing about its topics that ask nobody to do anything."""

from __future__ import annotations

from ..types import Array
from .recover import Prior, too_few


def fit_notes(n_docs: int, tensor_eigenvalues: Array, prior: Prior) -> list[str]:
    """One sentence each.

    Parameters
    ----------
    tensor_eigenvalues
        (K,): lambda.
    """
    K = len(tensor_eigenvalues)
    notes = []
    if n_docs < K**2:
        notes.append(
            f"The guarantee of {K:,} topics asks for about K² = {K**2:,} documents. There are {n_docs:,}, "
            f"which support n_components={max(1, int(n_docs**0.5))}."
        )
    trusted = tensor_eigenvalues >= 1
    if prior == "eigenvalues" and K > 1 and too_few(trusted):
        notes.append(
            f"All topics have the same weight, for {int((~trusted).sum()):,} of the {K:,} tensor eigenvalues "
            "are below 1, which no probability allows."
        )
    return notes
