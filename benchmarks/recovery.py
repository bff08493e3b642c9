"""Does the fit find the model that documents were drawn from? `python -m benchmarks.recovery`.

Draws 2,000 to 128,000 documents from a planted model and prints the mean L1 error of the columns of O and Q
and the L1 error of pi, topics matched by their words, for each way of looking at words and labels. With
counts, self-pairs dropped and one label a document, errors fall as 1 / sqrt(N); binary words and label sets
put a floor under them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize

from threepass import Corpus, MomentLabeler, Planted, ingest_planted
from threepass.ingest.synthetic import Lengths, planted_truth

SIZES = (2_000, 8_000, 32_000, 128_000)
VIEWS = {
    "counts, drop, 1 label": ({"words": "counts", "self_pairs": "drop"}, Lengths(1, 1)),
    "binary, drop, 1 label": ({"words": "binary", "self_pairs": "drop"}, Lengths(1, 1)),
    "binary, keep, 1 label": ({"words": "binary", "self_pairs": "keep"}, Lengths(1, 1)),
    "counts, drop, 3 labels": ({"words": "counts", "self_pairs": "drop"}, Lengths(3, 3)),
}


def planted(n_docs: int, labels: Lengths, seed: int) -> Planted:
    """40 words of 5,000 and `labels` of 40 a document, from 8 topics."""
    return Planted(n_docs, 5_000, 40, 8, words=Lengths(40, 40), labels=labels, distinct=False, seed=seed)


def matched_errors(corpus: Corpus, model: MomentLabeler) -> tuple[float, float, float]:
    """L1 errors of O and Q (mean over topics) and of pi, each true topic matched with its own estimate."""
    truth = planted_truth(corpus)
    O = model.word_topics_[corpus.term_ids]
    distance = abs(truth.O[:, :, None] - O[:, None, :]).sum(axis=0)  # (true, found)
    true, found = scipy.optimize.linear_sum_assignment(distance)
    Q, pi = model.label_topics_[:, found], model.topic_weights_[found]
    words = float(distance[true, found].mean())
    labels = float(abs(truth.Q[:, true] - Q).sum(axis=0).mean())
    return words, labels, float(abs(truth.pi[true] - pi).sum())


def errors(view: str, n_docs: int, seed: int, folder: Path) -> tuple[float, float, float]:
    parameters, labels = VIEWS[view]
    corpus = ingest_planted(planted(n_docs, labels, seed), folder / "planted.zarr", overwrite=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small corpora may warn; their errors say it all
        model = MomentLabeler(n_components=8, head="posterior", **parameters).fit(corpus)
        return matched_errors(corpus, model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for view in VIEWS:
            rows = np.array(
                [
                    np.mean([errors(view, n, seed, Path(folder)) for seed in range(arguments.seeds)], axis=0)
                    for n in SIZES
                ]
            )
            results[view] = {
                "documents": SIZES,
                "error_O": rows[:, 0].round(4).tolist(),
                "error_Q": rows[:, 1].round(4).tolist(),
                "error_pi": rows[:, 2].round(4).tolist(),
                "times_smaller_for_4x_documents": (rows[:-1] / rows[1:]).round(2).tolist(),
            }
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
