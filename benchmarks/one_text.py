"""A process that labels single texts, or fits, as often as it is asked to, for `benchmarks.latency`.

It takes a line of JSON for each request, and answers with one. It imports nothing of the benchmarks, so that
it runs with any version of the package that comes first on the path.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

WORDS = 25
"""Drawn for each text."""


def main() -> None:
    warnings.simplefilter("ignore")
    from threepass import Corpus, MomentLabeler

    requests = map(json.loads, sys.stdin)
    path = next(requests)
    if path.get("corpus"):
        corpus = Corpus.open(path["corpus"])
        MomentLabeler(n_components=5).fit(corpus.head(1000))  # loads, or compiles, every kernel
        for _ in answered(requests):
            MomentLabeler().fit(corpus)
        return
    model = MomentLabeler.load(path["model"])
    documents = drawn(model, path["texts"])
    for document in documents[:20]:
        model.predict_topk(document)
    for request in answered(requests):
        times = labelled(model, documents, request["clients"])
        request["ms"] = [1000 * seconds for seconds in times]


def answered(requests: Any) -> Any:
    """Each request; once it is done with, it is sent back, with the seconds that it took."""
    print("{}", flush=True)
    for request in requests:
        started = time.perf_counter()
        yield request
        print(json.dumps({**request, "seconds": time.perf_counter() - started}), flush=True)


def drawn(model: Any, count: int) -> list[Any]:
    """Documents as the model has them: of one topic each, as texts where it knows texts, or as rows."""
    import numpy as np
    import scipy.sparse

    rng = np.random.default_rng(0)
    topics = rng.choice(len(model.topic_weights_), count, p=model.topic_weights_)
    names, documents = model.term_names_, []
    for topic in topics:
        shares = model.word_topics_[:, topic].astype(float)
        words = rng.choice(len(shares), WORDS, p=shares / shares.sum())
        if model.text_ is None:
            row = np.zeros((1, len(shares)), np.float32)
            row[0, words] = 1
            documents.append(scipy.sparse.csr_array(row))
        else:
            documents.append([" ".join(names[word] for word in words)])
    return documents


def labelled(model: Any, documents: list[Any], clients: int) -> list[float]:
    """Seconds that each document takes, one after the other on each of some threads."""

    def times(own: list[Any]) -> list[float]:
        found = []
        for document in own:
            started = time.perf_counter()
            model.predict_topk(document)
            found.append(time.perf_counter() - started)
        return found

    with ThreadPoolExecutor(clients) as pool:
        parts = list(pool.map(times, [documents[i::clients] for i in range(clients)]))
    return [seconds for part in parts for seconds in part]


if __name__ == "__main__":
    main()
