"""Number of features of the ridge regression."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threepass.parts import sizes as module
from threepass.parts.sizes import FeatureCounts, feature_counts
from threepass.passes.plan import PARTS_BYTES

ENDLESS = 10**30
numbers = st.one_of(st.integers(1, 40), st.integers(1, 5000), st.integers(1, 10**8))
asked = st.one_of(st.none(), numbers)
memory = st.one_of(st.integers(1, 10**6), st.integers(1, 10**12))


def cost(counts_or_p: FeatureCounts | int, n_terms: int, n_labels: int) -> int:
    """Bytes that so many features take."""
    p = counts_or_p if isinstance(counts_or_p, int) else counts_or_p.total
    return 8 * n_terms * p + 40 * n_labels * p + 40 * p * p


@given(n_docs=numbers, n_terms=numbers, n_labels=numbers, wanted=asked, memory_bytes=memory)
def test_feature_counts__within_what_is_wanted_and_what_fits(
    n_docs: int, n_terms: int, n_labels: int, wanted: int | None, memory_bytes: int
) -> None:
    counts = feature_counts(n_docs, n_terms, n_labels, wanted, memory_bytes)
    assert counts.total == counts.labels + counts.words + counts.waves >= 1
    assert min(counts.labels, counts.words, counts.waves) >= 0
    assert counts.total == 1 or cost(counts, n_terms, n_labels) <= memory_bytes
    assert counts.labels + counts.words <= n_terms
    if wanted is None:
        assert counts.total <= n_docs
        assert counts.total == 1 or n_docs * counts.total**2 <= module._WORK
        assert counts.total <= module._MOST
        assert counts.words <= module._WORDS
        assert counts.waves <= module._WAVES
    else:
        assert counts.total <= wanted
        assert counts.waves == 0


@given(n_docs=numbers, n_terms=numbers, n_labels=numbers, wanted=asked, memory_bytes=memory)
def test_feature_counts__labels_then_words_then_waves(
    n_docs: int, n_terms: int, n_labels: int, wanted: int | None, memory_bytes: int
) -> None:
    counts = feature_counts(n_docs, n_terms, n_labels, wanted, memory_bytes)
    assert counts.labels >= 1
    assert counts.labels <= n_labels
    if counts.words:
        assert counts.labels == min(n_labels, n_terms)
    if counts.waves:
        assert counts.words == min(module._WORDS, n_terms - counts.labels)


@given(n_docs=numbers, n_terms=numbers, n_labels=numbers, wanted=asked, memory_bytes=memory)
def test_feature_counts__memory_is_the_reason_when_it_limits(
    n_docs: int, n_terms: int, n_labels: int, wanted: int | None, memory_bytes: int
) -> None:
    if wanted is not None:
        wanted = min(wanted, n_terms)  # more directions than words there are not
    counts = feature_counts(n_docs, n_terms, n_labels, wanted, memory_bytes)
    unlimited = feature_counts(n_docs, n_terms, n_labels, wanted, ENDLESS)
    assert counts.total <= unlimited.total
    assert "memory" not in unlimited.reason
    if counts.total < unlimited.total:
        assert counts.reason.startswith("memory")
    if "memory" in counts.reason:
        assert cost(counts.total + 1, n_terms, n_labels) > memory_bytes
    elif wanted is not None:
        assert counts.reason == "as asked for"
        assert counts.total == wanted
    else:
        assert counts == unlimited


@given(n_docs=numbers, n_terms=numbers, n_labels=numbers, memory_bytes=memory, more=st.integers(1, 10**9))
def test_feature_counts__more_memory_is_never_less(
    n_docs: int, n_terms: int, n_labels: int, memory_bytes: int, more: int
) -> None:
    one, other = (
        feature_counts(n_docs, n_terms, n_labels, memory_bytes=limit)
        for limit in (memory_bytes, memory_bytes + more)
    )
    assert one.labels <= other.labels
    assert one.words <= other.words
    assert one.waves <= other.waves


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # every label, all the words there is room for, and waves up to the most that pay
        ((100_000, 5000, 100), (100, 300, 1000)),
        ((100_000, 5000, 700), (700, 300, 500)),
        ((100_000, 5000, 1400), (1400, 100, 0)),
        ((100_000, 5000, 4000), (1500, 0, 0)),
        # few words
        ((100_000, 50, 100), (50, 0, 1000)),
        ((100_000, 120, 100), (100, 20, 1000)),
        # few documents
        ((130, 5000, 100), (100, 30, 0)),
        ((90, 5000, 100), (90, 0, 0)),
        ((0, 5000, 100), (1, 0, 0)),
        ((1, 1, 1), (1, 0, 0)),
        # so many that F'F takes long: 4e11 / 1e6 = 632²
        ((1_000_000, 5000, 100), (100, 300, 232)),
        # as asked for: directions alone
        ((100_000, 5000, 100, 40), (40, 0, 0)),
        ((100_000, 5000, 100, 400), (100, 300, 0)),
        ((100_000, 5000, 100, 4000), (100, 3900, 0)),
        ((10, 5000, 100, 4000), (100, 3900, 0)),
        ((100_000, 50, 100, 400), (50, 0, 0)),
        # memory: 8 · 1000 + 40 · 50 = 10,000 bytes for each feature, and 40 p²
        ((100_000, 1000, 50, None, 60 * 10_000 + 40 * 60**2), (50, 10, 0)),
        ((100_000, 1000, 50, None, 60 * 10_000 + 40 * 60**2 - 1), (50, 9, 0)),
        ((100_000, 1000, 50, 80, 60 * 10_000 + 40 * 60**2), (50, 10, 0)),
        ((100_000, 1000, 50, 30, 60 * 10_000 + 40 * 60**2), (30, 0, 0)),
        ((100_000, 1000, 50, None, 1), (1, 0, 0)),
    ],
)
def test_feature_counts__by_hand(arguments: tuple[int, ...], expected: tuple[int, int, int]) -> None:
    counts = feature_counts(*arguments)
    assert (counts.labels, counts.words, counts.waves) == expected
    assert counts.total == sum(expected)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((100_000, 5000, 100), "no more are of use"),
        ((100_000, 5000, 700), "more seldom pay"),
        ((130, 5000, 100), "no more than documents"),
        ((1_000_000, 5000, 700), "work: N p² <= 4e+11"),
        ((100_000, 5000, 100, 40), "as asked for"),
        ((100_000, 1000, 50, None, 10**6), "memory: 76 features take 0.001 GB"),
        ((100_000, 1000, 50, 100, 10**6), "memory: 76 features take 0.001 GB"),
        ((100_000, 1000, 50, 50, 10**6), "as asked for"),
        ((100_000, 1000, 50, 76, 10**6), "as asked for"),  # memory suffices, just so
        ((100_000, 50, 100, 400, 10**6), "no more than words"),
    ],
)
def test_feature_counts__says_why(arguments: tuple[int, ...], reason: str) -> None:
    assert feature_counts(*arguments).reason == reason


def test_feature_counts__two_gigabytes_unless_told() -> None:
    shape = 10**6, 10**6, 10**6
    assert PARTS_BYTES == 2_000_000_000
    assert feature_counts(*shape) == feature_counts(*shape, None, PARTS_BYTES)
    assert feature_counts(*shape).total == 41  # 48 MB for each
