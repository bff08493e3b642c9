"""Fits of the paper's topics alone."""

from __future__ import annotations

from typing import Any

from threepass import Corpus
from threepass.model.fitting import Fit, FitSettings, start
from threepass.moments.method import MomentSettings
from threepass.parts.part import PartSettings
from threepass.passes.executors import Threads
from threepass.passes.runner import Runner


def learn(corpus: Corpus, n_components: int, whitening: Any = "auto", **settings: Any) -> Fit:
    """A fit with the paper's own head. Words of its topics are in the order of the source."""
    moments = MomentSettings(n_components, whitening, **settings)
    fit, runner = start(corpus, FitSettings(moments, PartSettings("posterior")), Runner(Threads(2)))
    fit.run(runner)
    assert fit.moments is not None
    return fit
