"""The paper's own head: labels by the topics that the moments give, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from ..moments.posterior import TopicModel
from ..moments.topics import MomentTopics
from ..types import Array
from .part import Choice, Making, Scorer, Stored
from .refined import TopicPart, TopicScorer, stored_model


class Posterior(TopicScorer):
    """Labels by the paper's topics (equation 15); they are kept with the model whatever its parts."""

    name = "posterior"
    described = "those topics, as in the paper"

    def arrays(self) -> dict[str, Array]:
        return {}

    @classmethod
    def load(cls, stored: Stored, moments: MomentTopics) -> Self:
        model = stored_model(stored, moments.O, moments.Q, moments.pi)
        return cls(model, stored.number("weight", 0, 1e6))

    def reordered(self, words: Array, moments: MomentTopics, n_threads: int | None = None) -> Self:
        return replace(self, model=replace(self.model, O=moments.O))


class PosteriorPart(TopicPart):
    """Sums nothing: pass 3 is the paper's own."""

    name = "posterior"
    scorer = Posterior
    knows_held_out = True

    def held(self) -> Sequence[Any]:
        return []

    def model(self) -> TopicModel:
        topics = self.context.moments.topics()
        return TopicModel(topics.O, topics.Q, topics.pi)

    def finish(self, choice: Choice) -> Scorer:
        model = replace(self.model(), smoothing=choice["smoothing"], temperature=choice["temperature"])
        return Posterior(model, choice.get("weight", 0.0))

    def finishing(self) -> Making:
        return Making(2 * self.context.moments.tall_bytes)

    def remains(self) -> Sequence[Array]:
        return []  # the topics are the model's anyway

    @property
    def reordering(self) -> int:
        return 2 * self.context.moments.tall_bytes  # O, and the same with words in their new order
