"""The guarantee's promise, seen: on planted data errors fall as documents grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.recovery import SIZES, errors, matched_errors, planted
from threepass import MomentLabeler, ingest_planted
from threepass.ingest.synthetic import Lengths

VIEW = "counts, drop, 1 label"


def mean_errors(sizes: Sequence[int], n_seeds: int, folder: Path) -> np.ndarray:
    """(sizes, [O, Q, pi])."""
    return np.array(
        [np.mean([errors(VIEW, n, seed, folder) for seed in range(n_seeds)], axis=0) for n in sizes]
    )


def test_recovery__errors_fall_with_the_documents(tmp_path: Path) -> None:
    """Sixteen times the documents: errors are a quarter; those of pi scatter more."""
    few, many = mean_errors(SIZES[:3:2], 3, tmp_path)
    assert (few / many > [3, 3, 2]).all(), few / many
    assert (many < [0.12, 0.12, 0.03]).all(), many


@pytest.mark.exhaustive
def test_recovery__errors_fall_with_the_root_of_the_documents(tmp_path: Path) -> None:
    """Each 4x of documents halves the errors of O, Q and pi; 1.7x leaves room for chance.

    Twenty seeds, for the error of pi is nearly that of the draw itself: with eight it scatters, 1.6 to 2.2.
    """
    mean = mean_errors(SIZES, 20, tmp_path)
    ratios = mean[:-1] / mean[1:]
    assert (ratios >= 1.7).all(), ratios
    assert (mean[-1] < [0.06, 0.06, 0.01]).all()


def test_recovery__error_bars_tell_the_true_error(tmp_path: Path) -> None:
    corpus = ingest_planted(planted(8_000, Lengths(1, 1), 0), tmp_path / "c.zarr")
    model = MomentLabeler(8, head="posterior", words="counts", self_pairs="drop").fit(corpus)
    words, labels, _ = matched_errors(corpus, model)
    assert 0.5 < model.error_bars_.words.mean() / words < 2
    assert 0.5 < model.error_bars_.labels.mean() / labels < 2
