"""The demo: learn from docstrings which modules Python objects belong to, and evaluate the predictions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..ingest.docstrings import PACKAGES, DocumentedObject, ingest_docstrings
from ..metrics.measures import RankingSums, document_auc, ranking_sums
from ..model.evidence import Explanation
from ..model.labeler import MomentLabeler
from ..model.predictor import Predictor
from ..progress import Progress, begin
from ..storage.destination import new_directory
from ..types import Array
from .page import write_report

CORPUS, MODEL, REPORT = "docstrings.zarr", "model.zarr", "report.html"
"""Files that the demo leaves in its folder."""
NEIGHBOURS = 10
N_TOPICS = 100
_MARK = ".threepass-demo"
"""File that marks a folder as one of an earlier demo."""
_TEST_SHARE = 0.2
_SLAB = 256


@dataclass(frozen=True, slots=True)
class Prediction:
    """A held-out document with its predicted labels, and the evidence for the first."""

    document: DocumentedObject
    labels: list[tuple[str, float, bool]]
    """The best labels, with their probabilities and whether they are right."""
    explanation: Explanation
    """Evidence for the first label."""


@dataclass(frozen=True, slots=True)
class Demo:
    """Results of the demo."""

    corpus: Corpus
    model: MomentLabeler
    scores: dict[str, dict[str, float]]
    """P@1, P@3, P@5, nDCG@5 and AUC on held-out documents, of the model and of two baselines."""
    predictions: list[Prediction]
    seconds: dict[str, float]
    folder: Path


def run_demo(
    folder: str | Path,
    *,
    packages: Sequence[str] = PACKAGES,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Demo:
    """Build the corpus, fit, compare with baselines, and write corpus, model and report into a new folder.

    Parameters
    ----------
    folder
        Folder to make; it appears once everything in it is complete.
    packages
        Packages to take docstrings from; see `documented_objects`.
    overwrite
        Replace the folder of an earlier demo; no other folder is ever replaced.
    progress
        See `threepass.progress.Progress`.
    """
    folder = Path(folder)
    seconds: dict[str, float] = {}
    started = time.perf_counter()

    def mark(stage: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[stage], started = now - started, now

    with new_directory(
        folder, overwrite=overwrite, is_ours=lambda path: (path / _MARK).exists()
    ) as unfinished:
        (unfinished / _MARK).touch()
        corpus, objects = ingest_docstrings(unfinished / CORPUS, packages, progress=progress)
        mark("docstrings")
        train, test = corpus.split(test=_TEST_SHARE)
        enough = max(2, int(train.n_docs**0.5))  # the bound of the guarantee
        # docstrings repeat words, and the counts distinguish their topics
        model = MomentLabeler(min(N_TOPICS, enough), words="counts").fit(train, progress=progress)
        begin(progress, "save")
        model.save(unfinished / MODEL)
        mark("fit")
        measured = model.evaluate(test, progress=progress)
        names = ("p@1", "p@3", "p@5", "ndcg@5", "auc")
        scores = {"threepass": {name: float(measured[name]) for name in names}}
        mark("evaluate")
        begin(progress, "baselines")
        scores |= {name: {key: made[key] for key in names} for name, made in _baselines(train, test).items()}
        mark("baselines")
        predictions = _predictions(model.predictor_, test, objects)
        texts = {number: documented.text for number, documented in enumerate(objects)}
        write_report(model, unfinished / REPORT, test, texts=texts, progress=progress)
        mark("report")
    return Demo(Corpus.open(folder / CORPUS), model, scores, predictions, seconds, folder)


def _baselines(train: Corpus, test: Corpus) -> dict[str, dict[str, float]]:
    """Measures of two simple baselines, taken in the same way as those of the model."""
    X, Y = train.to_scipy()
    X_test, Y_test = test.to_scipy()
    truth = SparseRows(Y_test.indptr.astype(np.int64), Y_test.indices.astype(np.int32), None, Y_test.shape[1])
    frequent = train.label_counts.astype(np.float32)
    slabs = range(0, test.n_docs, _SLAB)
    return {
        "most frequent labels": _measured(
            truth, (np.tile(frequent, (min(_SLAB, test.n_docs - start), 1)) for start in slabs)
        ),
        f"{NEIGHBOURS} nearest neighbours": _measured(truth, neighbour_votes(X, Y, X_test)),
    }


def _measured(truth: SparseRows, slabs: Iterable[Array]) -> dict[str, float]:
    """Measures of the scores of all labels, which come for some documents at a time."""
    sums, start = RankingSums.zero(), 0
    for scores in slabs:
        own = truth.slice(start, start + len(scores))
        best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
        sums = sums.merge(ranking_sums(best, own, auc=document_auc(scores, own)))
        start += len(scores)
    return sums.finish()


def neighbour_votes(X: Any, Y: Any, X_test: Any, n_neighbours: int = NEIGHBOURS) -> Iterator[Array]:
    """Yield scores of a k-nearest-neighbour classifier, (some documents, L) at a time.

    The score of a label is the sum of the cosine similarities (of tf-idf) of the nearest training documents
    that have it.

    Parameters
    ----------
    X, Y, X_test
        Counts of words in training documents, their labels, and counts of words in new documents; scipy CSR.
    """
    from sklearn.feature_extraction.text import TfidfTransformer  # imported here: it takes half a second

    weigh = TfidfTransformer(sublinear_tf=True).fit(X)
    known, new = weigh.transform(X).T.tocsr(), weigh.transform(X_test)
    for start in range(0, new.shape[0], _SLAB):
        alike = (new[start : start + _SLAB] @ known).toarray()  # (slab, n_train)
        nearest = np.argsort(-alike, axis=1, kind="stable")[:, :n_neighbours]
        weights = np.take_along_axis(alike, nearest, axis=1)
        rows = np.repeat(np.arange(len(alike)), nearest.shape[1])
        votes = scipy.sparse.csr_array((weights.ravel(), (rows, nearest.ravel())), shape=alike.shape) @ Y
        yield votes.toarray()


def _predictions(model: Predictor, test: Corpus, objects: list[DocumentedObject]) -> list[Prediction]:
    """Predictions for three held-out documents of medium length, from all parts of the corpus."""
    chosen: list[int] = []
    for third in range(3):
        rows = test.doc_ids[third * test.n_docs // 3 : (third + 1) * test.n_docs // 3].tolist()
        readable = [row for row in rows if 80 <= len(objects[row].text) <= 400]
        chosen += (readable or rows)[len(readable or rows) // 2 :][:1]
    predictions = []
    for number in chosen:
        view = Corpus(test.root, test.info, np.array([number]))
        (labels,), (scores,) = model.predict_topk(view, 5)
        made = objects[number]
        known = labels >= 0
        names = [model.label_names[label] for label in labels[known].tolist()]
        found = [
            (name, score, name in made.labels)
            for name, score in zip(names, scores[known].tolist(), strict=True)
        ]
        predictions.append(Prediction(made, found, model.explain(view, int(labels[0]), n=5)))
    return predictions
