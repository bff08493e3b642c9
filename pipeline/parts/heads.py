"""The heads: which parts a label's score is the sum of."""

from __future__ import annotations

from dataclasses import dataclass

from .contrast import Contrast
from .memory import MemoryPart
from .neighbours import NeighboursPart
from .part import Part, Scorer
from .posterior import PosteriorPart
from .refined import RefinedPart
from .ridge import RidgePart


@dataclass(frozen=True, slots=True)
class Head:
    """A way to score labels."""

    parts: tuple[type[Part], ...]
    is_calibrated: bool
    """Whether scores become probabilities; else they are shares, which add up to 1 over all labels."""
    has_contrast: bool = False
    """Whether classifiers tell the best labels by all parts apart."""

    @property
    def refines(self) -> bool:
        """Whether any of the parts learns from further reads."""
        return any(part.refines for part in self.parts)

    def scorer(self, name: str) -> type[Scorer]:
        """Class of the scorer that the part of this name becomes.

        Raises
        ------
        KeyError
            The head has no such part.
        """
        contrast = {Contrast.name: Contrast} if self.has_contrast else {}
        return ({part.name: part.scorer for part in self.parts} | contrast)[name]


HEADS = {
    "posterior": Head((PosteriorPart,), is_calibrated=False),
    "refined": Head((RefinedPart,), is_calibrated=False),
    "ridge": Head((RidgePart, MemoryPart), is_calibrated=True),
    "blend": Head((RidgePart, MemoryPart, RefinedPart), is_calibrated=True),
    "sharp": Head(
        (RidgePart, MemoryPart, RefinedPart, NeighboursPart), is_calibrated=True, has_contrast=True
    ),
}
