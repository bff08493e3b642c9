"""The guarantee's promise, seen: on planted data errors fall as documents grow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.recovery import SIZES, errors, matched_errors, planted
from threepass import MomentLabeler, ingest_planted
from threepass.ingest.synthetic import Lengths


@pytest.mark.slow
def test_recovery__errors_fall_with_the_root_of_the_documents(tmp_path: Path) -> None:
    """Each 4x of documents halves the errors of O, Q and pi; 1.7x leaves room for chance.

    Twenty seeds, for the error of pi is nearly that of the draw itself: with eight it scatters, 1.6 to 2.2.
    """
    view = "counts, drop, 1 label"
    mean = np.array([np.mean([errors(view, n, seed, tmp_path) for seed in range(20)], axis=0) for n in SIZES])
    ratios = mean[:-1] / mean[1:]  # (steps, [O, Q, pi])
    assert (ratios >= 1.7).all(), ratios
    assert (mean[-1] < [0.06, 0.06, 0.01]).all()


def test_recovery__error_bars_tell_the_true_error(tmp_path: Path) -> None:
    for n_docs in (8_000, 32_000):
        corpus = ingest_planted(planted(n_docs, Lengths(1, 1), 0), tmp_path / str(n_docs))
        model = MomentLabeler(8, head="posterior", words="counts", self_pairs="drop").fit(corpus)
        words, labels, _ = matched_errors(corpus, model)
        assert 0.5 < model.error_bars_.words.mean() / words < 2
        assert 0.5 < model.error_bars_.labels.mean() / labels < 2


def test_recovery__no_error_bars_unless_wanted(tmp_path: Path) -> None:
    corpus = ingest_planted(planted(2_000, Lengths(1, 1), 0), tmp_path / "d")
    options = {"head": "posterior", "words": "counts", "self_pairs": "drop"}
    with_bars, without = (MomentLabeler(8, error_bars=bars, **options).fit(corpus) for bars in (True, False))
    assert np.isnan(without.error_bars_.words).all()
    assert np.isfinite(with_bars.error_bars_.words).all()
    np.testing.assert_array_equal(with_bars.word_topics_, without.word_topics_)
    np.testing.assert_array_equal(with_bars.label_topics_, without.label_topics_)
    assert "No error bars" in without.guarantee().sentence
