"""How fast, how small and how exact an ingest is: `python -m benchmarks.ingest [--text]`."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks import text
from benchmarks.measure import forget, machine, run_measured
from threepass import Corpus, ingest_shape
from threepass.corpus.describe import describe
from threepass.ingest.synthetic import SHAPES

INGEST = """
import json, sys, time
from threepass import ingest_xmc
started = time.perf_counter()
ingest_xmc(sys.argv[1:-1], sys.argv[-1], overwrite=True)
print(json.dumps({"seconds": time.perf_counter() - started}))
"""
BYTES_A_DOCUMENT = 476  # of AmazonCat-shaped text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300, help="size of the text, at least")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder if absent")
    parser.add_argument("--text", action="store_true", help="texts in place of sparse rows")
    parser.add_argument("--file", type=Path, action="append", default=[], help="with --text: also this one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.text:
            print(json.dumps(text.measure(Path(folder), arguments.megabytes, arguments.file), indent=2))
            return
        print(json.dumps(measure(Path(folder), arguments.megabytes), indent=2))


def measure(folder: Path, megabytes: int) -> dict[str, Any]:
    scale = 1.05e6 * megabytes / BYTES_A_DOCUMENT / SHAPES["amazoncat"].n_docs
    started = time.perf_counter()
    drawn = ingest_shape("amazoncat", folder / "drawn.zarr", scale=scale)
    draw_seconds = time.perf_counter() - started
    source = folder / "train.txt"
    write_xmc(drawn, source)
    size = source.stat().st_size / 1e6

    dest = folder / "train.zarr"
    first = run_measured(INGEST, source, dest)  # compiles, unless an earlier run has
    once = run_measured(INGEST, source, dest)
    four_times = run_measured(INGEST, *[source] * 4, folder / "four.zarr")

    started = time.perf_counter()
    with source.open("rb") as file:
        file.readline()
        peer, _ = load_svmlight_file(file, n_features=drawn.n_terms, multilabel=True, zero_based=True)
    peer_seconds = time.perf_counter() - started

    corpus = Corpus.open(dest)
    exact = same_matrix(corpus, peer)
    return {
        "machine": machine(),
        "text_mb": round(size, 1),
        "documents": corpus.n_docs,
        "draw_seconds": round(draw_seconds, 2),
        "ingest_mb_per_s": round(size / once["seconds"], 1),
        "first_ingest_seconds": round(first["seconds"], 2),
        "ingest_seconds": round(once["seconds"], 2),
        "sklearn_mb_per_s": round(size / peer_seconds, 1),
        "times_faster_than_sklearn": round(peer_seconds / once["seconds"], 2),
        "bits_per_nonzero": round(describe(corpus)["bits_per_nonzero"], 2),
        "peak_mb": once["peak_mb"],
        "peak_mb_of_4x": four_times["peak_mb"],
        "peak_4x_over_1x": round(four_times["peak_mb"] / once["peak_mb"], 3),
        "seconds_4x_over_1x": round(four_times["seconds"] / once["seconds"], 2),
        "read_back": read_back(corpus, dest, folder / "raw"),
        "equal_to_the_source": exact,
    }


def write_xmc(corpus: Corpus, path: Path) -> None:
    """Write a binary corpus as XMC text, with the ids of its source in increasing order."""
    words = [f"{i}:1" for i in range(corpus.n_terms)]
    labels = list(map(str, range(corpus.n_labels)))
    with path.open("w") as file:
        file.write(f"{corpus.n_docs} {corpus.n_terms} {corpus.n_labels}\n")
        for block in corpus.blocks():
            x, y = block.X.to_scipy(), block.Y
            x.indices = corpus.term_ids[x.indices]
            x.has_sorted_indices = False
            x.sort_indices()
            xs, ys = x.indptr.tolist(), y.indptr.tolist()
            x_words = [words[i] for i in x.indices.tolist()]
            y_words = [labels[i] for i in y.indices.tolist()]
            file.writelines(
                f"{','.join(y_words[ys[i] : ys[i + 1]])} {' '.join(x_words[xs[i] : xs[i + 1]])}\n"
                for i in range(y.n_rows)
            )


def same_matrix(corpus: Corpus, source: Any) -> bool:
    """Whether store -> corpus.X -> scipy gives back exactly the source."""
    source = source[:, corpus.term_ids]
    source.sort_indices()
    row = 0
    for delayed in corpus.X.to_delayed().ravel():
        block = delayed.compute(scheduler="sync").to_scipy_sparse().tocsr()
        part = source[row : row + block.shape[0]]
        row += block.shape[0]
        arrays = ((block.indptr, part.indptr), (block.indices, part.indices), (block.data, part.data))
        if not all(np.array_equal(mine, theirs) for mine, theirs in arrays):
            return False
    return row == source.shape[0]


def read_back(corpus: Corpus, path: Path, raw: Path) -> dict[str, Any]:
    """Decode every block from disk, against `np.load` of the same arrays, both with a cold page cache."""
    raw.mkdir()
    decoded = 0
    for block in corpus.blocks():
        arrays = [block.X.indptr, block.X.indices, block.Y.indptr, block.Y.indices]
        decoded += sum(array.nbytes for array in arrays)
        for i, array in enumerate(arrays):
            np.save(raw / f"{block.number}-{i}.npy", array)

    def cold(folder: Path) -> None:
        forget(file for file in folder.rglob("*") if file.is_file())

    cold(path)
    started = time.perf_counter()
    for _ in corpus.blocks():
        pass
    store_seconds = time.perf_counter() - started
    cold(raw)
    started = time.perf_counter()
    for file in sorted(raw.iterdir()):
        np.load(file)
    load_seconds = time.perf_counter() - started
    return {
        "decoded_mb": round(decoded / 1e6, 1),
        "store_mb_per_s": round(decoded / 1e6 / store_seconds, 1),
        "np_load_mb_per_s": round(decoded / 1e6 / load_seconds, 1),
        "store_over_np_load": round(load_seconds / store_seconds, 2),
    }


if __name__ == "__main__":
    main()
