"""Planted corpora: documents drawn from a latent model whose O, Q and pi are known.

The model is the paper's (equation 1): draw a topic h from pi, then words from O[:, h] and labels from
Q[:, h]. Each column of O mixes a Zipf distribution common to all topics with one over the topic's own words,
so that word frequencies look natural; labels likewise. Every document has its own random stream, seeded by
its number, so the corpus does not depend on blocks or threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Unpack

import numpy as np
import scipy.special
import zarr

from ..corpus import format as fmt
from ..corpus.kernels import merge_repeats
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError, StoreError
from ..storage.arrays import holds, read_array, read_attributes, write_array
from ..storage.guard import DamageError
from ..tasks import map_tasks
from ..types import Array
from .compose import build_corpus
from .spool import IngestKeywords, IngestOptions, PieceWriter, Shape, Source, Spool
from .synthetic_kernels import ItemTables, Model, Rows, alias_table, draw_documents

_QUANTILES = 4096


@dataclass(frozen=True, slots=True)
class Lengths:
    """Distribution of words or labels per document: log-normal, mirrored if the mean is below the median."""

    mean: float
    median: float

    def table(self, most: int) -> Array:
        """(4096,) int64: equally likely lengths, from 1 to `most`, with this mean (nearly) and median."""
        z = scipy.special.ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        median = min(self.median, most)

        def lengths(spread: float) -> Array:
            right = median * np.exp(spread * z)
            raw = right if self.mean >= self.median else 2 * median - right[::-1]
            return np.asarray(np.clip(np.round(raw), 1, most), np.int64)

        low, high = 0.0, 3.0
        for _ in range(40):  # the mean moves away from the median as the spread grows
            middle = (low + high) / 2
            too_wide = abs(lengths(middle).mean() - median) > abs(min(self.mean, most) - median)
            low, high = (low, middle) if too_wide else (middle, high)
        return lengths((low + high) / 2)


@dataclass(frozen=True, slots=True)
class Mixture:
    """K distributions over `n` items. Topic k draws from its own items with probability `share`."""

    common: Array
    """(n,) weights, adding up to 1."""
    ids: Array
    """(K, s) int32: each topic's own items."""
    weights: Array
    """(K, s): probabilities of each topic's own items; rows add up to 1."""
    share: float

    @classmethod
    def zipf(cls, n: int, n_topics: int, size: int, share: float, rng: np.random.Generator) -> Mixture:
        """Mixture that follows Zipf's law. Each topic owns a random choice of the items, at common weights.

        The most common items are flattened within a topic. Otherwise one of them would dominate it.
        """
        ids = np.stack([np.sort(rng.choice(n, size, replace=False)) for _ in range(n_topics)])
        common, weights = _zipf(np.arange(n)), _zipf(ids, flat=max(2.7, n / 2000))
        weights /= weights.sum(axis=1, keepdims=True)
        return cls(common / common.sum(), ids.astype(np.int32), weights, share)

    def matrix(self) -> Array:
        """(n, K) float64: the probabilities; columns add up to 1."""
        dense = np.repeat((1 - self.share) * self.common[:, None], len(self.ids), axis=1)
        for topic, own in enumerate(self.ids):
            dense[own, topic] += self.share * self.weights[topic]
        return dense

    def tables(self, lengths: Array, distinct: bool) -> ItemTables:
        """Tables for the sampling kernel, of documents with some lengths."""
        tables = [alias_table(weights) for weights in self.weights]
        keep, other = (np.stack(side) for side in zip(*tables, strict=True))
        return ItemTables(lengths, distinct, self.share, self.ids, keep, other, *alias_table(self.common))


@dataclass(frozen=True)
class Planted:
    """A latent model to draw documents from.

    Parameters
    ----------
    words, labels
        Row lengths of X and Y.
    distinct
        Draw the words of a document without repeats, so that X is binary with the requested row lengths.
        False draws them independently, as in the paper's model, and X counts them.
    topic_share
        Share of a topic's mass on its own words and labels.
    """

    n_docs: int
    n_terms: int
    n_labels: int
    n_topics: int
    words: Lengths
    labels: Lengths
    distinct: bool = True
    topic_share: float = 0.6
    seed: int = 0

    def __post_init__(self) -> None:
        smallest = min(self.n_docs, self.n_terms, self.n_labels, self.n_topics)
        if smallest < 1:
            raise InputError(
                f"A planted corpus needs documents, terms, labels and topics. Found {self.n_docs}, "
                f"{self.n_terms}, {self.n_labels}, {self.n_topics}. Make each at least 1."
            )

    @cached_property
    def pi(self) -> Array:
        """(n_topics,) float64: probability of each topic."""
        return np.random.default_rng([self.seed, 0]).dirichlet(np.full(self.n_topics, 5.0))

    @cached_property
    def word_mixture(self) -> Mixture:
        size = min(self.n_terms, max(50, min(self.n_terms // 20, 50_000)))
        rng = np.random.default_rng([self.seed, 1])
        return Mixture.zipf(self.n_terms, self.n_topics, size, self.topic_share, rng)

    @cached_property
    def label_mixture(self) -> Mixture:
        size = min(self.n_labels, max(10, 3 * self.n_labels // self.n_topics))
        rng = np.random.default_rng([self.seed, 2])
        return Mixture.zipf(self.n_labels, self.n_topics, size, self.topic_share, rng)

    def scaled(self, scale: float) -> Planted:
        """The same model with another number of documents."""
        if not scale > 0:
            raise InputError(
                f"scale must be positive. Found {scale}. Pass 1 for the full size, 0.1 for a tenth."
            )
        return replace(self, n_docs=max(1, round(self.n_docs * scale)))


# The paper's Table 1: training documents, features, labels, mean and median of features and labels.
SHAPES = {
    "bibtex": Planted(4_880, 1_836, 159, 50, Lengths(68.67, 69), Lengths(2.40, 2)),
    "delicious": Planted(12_920, 500, 983, 50, Lengths(18.29, 6), Lengths(19.02, 20)),
    "nytimes": Planted(14_669, 24_670, 4_185, 100, Lengths(373.91, 354), Lengths(5.40, 5)),
    "wiki31k": Planted(14_146, 101_938, 30_938, 100, Lengths(669.05, 513), Lengths(18.64, 19)),
    "amazoncat": Planted(1_186_239, 203_882, 13_330, 100, Lengths(71.09, 45), Lengths(5.04, 4)),
    "wikilshtc": Planted(1_778_351, 1_617_899, 325_056, 100, Lengths(42.15, 30), Lengths(3.19, 2)),
}


@dataclass(frozen=True, slots=True)
class Truth:
    """Model that a planted corpus was drawn from, in the column order of the corpus."""

    O: Array
    """(n_terms, K) float64: P[word | topic]."""
    Q: Array
    """(n_labels, K) float64: P[label | topic]."""
    pi: Array
    """(K,) float64: P[topic]."""


def ingest_shape(
    name: str, dest: str | Path, *, scale: float = 1.0, **options: Unpack[IngestKeywords]
) -> Corpus:
    """Draw a corpus with the shape of one of the paper's data sets (Table 1), or a share of its documents.

    Parameters
    ----------
    name
        One of `SHAPES`: bibtex, delicious, nytimes, wiki31k, amazoncat, wikilshtc.
    scale
        Share of the documents to draw. The numbers of terms and labels do not change.
    """
    if name not in SHAPES:
        raise InputError(f"There is no shape '{name}'. Choose one of: {', '.join(SHAPES)}.")
    return ingest_planted(SHAPES[name].scaled(scale), dest, **options)


def ingest_planted(model: Planted, dest: str | Path, **options: Unpack[IngestKeywords]) -> Corpus:
    """Draw a corpus from a planted model straight into a store, and store the true parameters with it.

    Examples
    --------
    >>> import tempfile
    >>> model = Planted(100, 500, 20, 3, words=Lengths(30, 25), labels=Lengths(2, 2))
    >>> corpus = ingest_planted(model, tempfile.mkdtemp() + "/planted.zarr")
    >>> corpus.shape, planted_truth(corpus).O.shape
    ((100, 500), (500, 3))
    """
    # Drawing distinct words takes forever if a document needs nearly all of them: leave room.
    n_words = model.words.table(max(1, model.n_terms // 2) if model.distinct else 2**31)
    n_labels = model.labels.table(max(1, model.n_labels // 2))
    words = model.word_mixture.tables(n_words, model.distinct)
    labels = model.label_mixture.tables(n_labels, True)
    sampled = Model(model.seed, np.cumsum(model.pi), words, labels)
    settings = IngestOptions(**options)
    docs_per_piece = max(1, round(settings.sizes.piece_bytes / (8 * (n_words.mean() + n_labels.mean()) + 16)))
    starts = range(0, model.n_docs, docs_per_piece)

    def read(spool: Spool) -> list[PieceWriter]:
        def draw(number: int) -> PieceWriter:
            first = starts[number]
            n = min(docs_per_piece, model.n_docs - first)
            room = 1.2
            while True:
                x, y = (
                    Rows(
                        np.zeros(n + 1, np.int64),
                        np.empty(int(n * side.lengths.mean() * room) + side.lengths[-1], np.int32),
                    )
                    for side in (words, labels)
                )
                if draw_documents(sampled, first, x, y):
                    break
                room *= 2
            x_indices, values = x.indices[: x.indptr[-1]], None
            if not model.distinct:
                values = np.ones(len(x_indices))
                nnz = merge_repeats(x.indptr, x_indices, values)
                x_indices, values = x_indices[:nnz], values[:nnz]
            writer = spool.writer(number)
            writer.add(
                SparseRows(x.indptr, x_indices, values, model.n_terms),
                SparseRows(y.indptr, y.indices[: y.indptr[-1]], None, model.n_labels),
            )
            spool.advance("draw", n, model.n_docs)
            return writer

        return map_tasks(draw, range(len(starts)), name="ingest-draw", n_threads=spool.options.n_threads)

    source = Source(
        read=read,
        description={"kind": "planted", "seed": model.seed, "topics": model.n_topics},
        shape=Shape(model.n_terms, model.n_labels),
        write_extras=lambda root: _write_truth(root, model),
    )
    return build_corpus(dest, source, settings)


def planted_truth(corpus: Corpus) -> Truth:
    """The true O, Q and pi of a planted corpus.

    Raises
    ------
    StoreError
        The corpus was not drawn from a planted model.
    """
    with fmt.refusing():
        if not holds(corpus.root, "truth"):
            raise StoreError(
                "The corpus has no 'truth' group. Only planted corpora store the model they were drawn from."
            )
        pi = read_array(corpus.root, "truth/pi", (None,), np.float64, crc=corpus.info.crc32c.get("truth/pi"))
        n_columns = {"words": corpus.n_terms, "labels": corpus.n_labels}
        O, Q = (_read_mixture(corpus, f"truth/{side}", n, len(pi)).matrix() for side, n in n_columns.items())
    return Truth(O[corpus.term_ids], Q, pi)


def _write_truth(root: zarr.Group, model: Planted) -> dict[str, int]:
    truth = root.create_group("truth")
    checksums = write_array(truth, "pi", model.pi)
    for side, mixture in (("words", model.word_mixture), ("labels", model.label_mixture)):
        group = truth.create_group(side)
        checksums |= write_array(group, "common", mixture.common)
        checksums |= write_array(group, "ids", mixture.ids.ravel())
        checksums |= write_array(group, "weights", mixture.weights.ravel())
        group.attrs["share"] = mixture.share
    return checksums


def _read_mixture(corpus: Corpus, path: str, n: int, n_topics: int) -> Mixture:
    def read(name: str, shape: tuple[int | None, ...], dtype: type) -> Array:
        place = f"{path}/{name}"
        return read_array(corpus.root, place, shape, dtype, crc=corpus.info.crc32c.get(place))

    common = read("common", (n,), np.float64)
    ids = read("ids", (None,), np.int32)
    weights = read("weights", ids.shape, np.float64)
    share = read_attributes(corpus.root, path).get("share")
    if not isinstance(share, float) or not 0 <= share <= 1:
        raise DamageError(path, f"its share is {share!r}")
    if len(ids) % max(1, n_topics) or not ((ids >= 0) & (ids < n)).all():
        raise DamageError(path, f"its ids are not as many for each of {n_topics} topics, and all below {n}")
    return Mixture(common, ids.reshape(n_topics, -1), weights.reshape(n_topics, -1), share)


def _zipf(ranks: Array, flat: float = 2.7) -> Array:
    """Zipf's law in two regimes, not normalised: 1/r for common words, 1/r² beyond the 10,000th.

    Large corpora of real text show this bend: most of a big vocabulary is very rare.
    """
    return 1 / ((ranks + 1 + flat) * (1 + ranks / 10_000))
