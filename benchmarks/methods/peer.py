"""A peer in a process of its own: `python -m benchmarks.methods.peer METHOD FOLDER OPTIONS`.

FOLDER has `X.npz`, `Y.npz` and `test.npz`, scipy's sparse matrices of weighted words and of labels, and gets
`best.npz`. OPTIONS is JSON: `seed` and `threads`. The last line is a JSON object.

Every peer has its authors' default settings, is driven by its public interface, and gets no training document
without words or labels, which some refuse. Nothing of threepass is imported: peers may ask for other versions
of what it needs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse

from benchmarks.methods import TOP, phase

Matrix = scipy.sparse.csr_matrix
"""What every peer takes; newer versions of scipy have arrays too, which some of them do not know."""


class Peer(Protocol):
    def train(self, X: Matrix, Y: Matrix) -> None: ...

    def predict(self, X: Matrix) -> tuple[Any, Any]:
        """Labels and scores of documents, both (n, TOP), -1 and -inf where there are fewer."""

    def model_bytes(self) -> int:
        """What the model takes on disk."""


class Omikuji:
    """Trees of linear classifiers over balanced clusters of labels, as Parabel has them."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._folder, self._threads = folder, options["threads"]

    def train(self, X: Matrix, Y: Matrix) -> None:
        from omikuji import Model

        self._model = Model.train_on_data(str(self._folder / "train.txt"), n_threads=self._threads)

    def prepare(self, X: Matrix, Y: Matrix) -> None:
        """The file that it reads; writing it is not counted."""
        with (self._folder / "train.txt").open("w") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
            for row in range(X.shape[0]):
                labels = ",".join(map(str, row_of(Y, row)[0].tolist()))
                words = " ".join(f"{i}:{v:.6g}" for i, v in zip(*map(list, row_of(X, row)), strict=True))
                file.write(f"{labels} {words}\n")

    def predict(self, X: Matrix) -> tuple[Any, Any]:
        self._model.init_prediction_thread_pool(self._threads or 0)

        def best(row: int) -> list[tuple[int, float]]:
            indices, values = row_of(X, row)
            pairs = list(zip(indices.tolist(), values.tolist(), strict=True))
            return self._model.predict(pairs, top_k=TOP) if pairs else []

        return filled([best(row) for row in range(X.shape[0])])

    def model_bytes(self) -> int:
        path = self._folder / "model"
        self._model.save(str(path))
        return bytes_below(path)


class NapkinXC:
    """Probabilistic label trees."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        from napkinxc.models import PLT

        self._path = folder / "model"
        self._model = PLT(str(self._path), seed=options["seed"], threads=options["threads"] or 0)

    def train(self, X: Matrix, Y: Matrix) -> None:
        self._model.fit(X, [row_of(Y, row)[0].tolist() for row in range(Y.shape[0])])

    def predict(self, X: Matrix) -> tuple[Any, Any]:
        return filled(self._model.predict_proba(X, top_k=TOP))

    def model_bytes(self) -> int:
        return bytes_below(self._path)


class Pecos:
    """XR-Linear: linear rankers down a hierarchy of label clusters."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._path, self._threads = folder / "model", options["threads"] or -1

    def train(self, X: Matrix, Y: Matrix) -> None:
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel

        clusters = Indexer.gen(LabelEmbeddingFactory.create(Y, X), threads=self._threads)
        self._model = XLinearModel.train(X, Y, C=clusters, threads=self._threads)

    def predict(self, X: Matrix) -> tuple[Any, Any]:
        scores = self._model.predict(X, only_topk=TOP, threads=self._threads).tocsr()
        rows = [list(zip(*row_of(scores, row), strict=True)) for row in range(scores.shape[0])]
        return filled([sorted(row, key=lambda pair: -pair[1]) for row in rows])

    def model_bytes(self) -> int:
        self._model.save(str(self._path))
        return bytes_below(self._path)


class LibMultiLabel:
    """Its linear classifiers on a tree of labels."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._path = folder / "model"

    def train(self, X: Matrix, Y: Matrix) -> None:
        from libmultilabel import linear

        self._model = linear.train_tree(Y, X.astype(np.float64), verbose=False)

    def predict(self, X: Matrix) -> tuple[Any, Any]:
        from libmultilabel import linear

        labels, scores = [], []
        for top in range(0, X.shape[0], 512):  # its scores are dense
            values = linear.predict_values(self._model, X[top : top + 512].astype(np.float64))
            best = np.argsort(-values, axis=1, kind="stable")[:, :TOP]
            labels.append(best)
            scores.append(np.take_along_axis(values, best, axis=1))
        return np.concatenate(labels).astype(np.int32), np.concatenate(scores).astype(np.float32)

    def model_bytes(self) -> int:
        import pickle

        return len(pickle.dumps(self._model))


class FastText:
    """Its supervised mode on the words that occur, not their weights; 25 epochs, as its guide has them."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._folder, self._options = folder, options

    def prepare(self, X: Matrix, Y: Matrix) -> None:
        """The file that it reads; writing it is not counted."""
        with (self._folder / "train.txt").open("w") as file:
            for row in range(X.shape[0]):
                labels = " ".join(f"__label__{label}" for label in row_of(Y, row)[0].tolist())
                file.write(f"{labels} {self._text(X, row)}\n")

    def train(self, X: Matrix, Y: Matrix) -> None:
        import fasttext

        self._model = fasttext.train_supervised(
            str(self._folder / "train.txt"),
            lr=0.5,
            epoch=25,
            loss="ova" if Y.shape[1] <= 1000 else "hs",
            thread=self._options["threads"] or 2,
            seed=self._options["seed"],
            verbose=0,
        )

    def predict(self, X: Matrix) -> tuple[Any, Any]:
        texts = [self._text(X, row) for row in range(X.shape[0])]
        labels, scores = self._model.predict(texts, k=TOP)
        numbers = [[int(label.removeprefix("__label__")) for label in row] for row in labels]
        return filled([list(zip(*pair, strict=True)) for pair in zip(numbers, scores, strict=True)])

    def model_bytes(self) -> int:
        path = self._folder / "model.bin"
        self._model.save_model(str(path))
        return path.stat().st_size

    @staticmethod
    def _text(X: Matrix, row: int) -> str:
        return " ".join(f"w{word}" for word in row_of(X, row)[0].tolist())


PEERS: dict[str, Any] = {
    "omikuji": Omikuji,
    "napkinxc": NapkinXC,
    "pecos": Pecos,
    "libmultilabel": LibMultiLabel,
    "fasttext": FastText,
}


def main() -> None:
    method, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    phase("load")
    X, Y, test = (Matrix(scipy.sparse.load_npz(folder / f"{name}.npz")) for name in ("X", "Y", "test"))
    n_docs = X.shape[0]
    usable = np.flatnonzero((np.diff(X.indptr) > 0) & (np.diff(Y.indptr) > 0))
    X, Y = X[usable], Y[usable]
    peer = PEERS[method](folder, options)
    if hasattr(peer, "prepare"):
        peer.prepare(X, Y)
    phase("train")
    started = time.perf_counter()
    peer.train(X, Y)
    trained = time.perf_counter()
    phase("predict")
    labels, scores = peer.predict(test)
    predicted = time.perf_counter()
    np.savez(folder / "best.npz", labels=labels, scores=scores)
    result = {
        "train_seconds": trained - started,
        "predict_seconds": predicted - trained,
        "model_bytes": peer.model_bytes(),
        "documents_left_out": n_docs - len(usable),
    }
    print()  # some peers do not end their last line
    print(json.dumps(result))


def row_of(matrix: Matrix, row: int) -> tuple[Any, Any]:
    """Columns and values of a row."""
    entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return matrix.indices[entries], matrix.data[entries]


def filled(rows: list[list[tuple[int, float]]]) -> tuple[Any, Any]:
    """Rows of pairs as two arrays (n, TOP), -1 and -inf where there are fewer."""
    labels = np.full((len(rows), TOP), -1, np.int32)
    scores = np.full((len(rows), TOP), -np.inf, np.float32)
    for i, row in enumerate(rows):
        for j, (label, score) in enumerate(row[:TOP]):
            labels[i, j], scores[i, j] = label, score
    return labels, scores


def bytes_below(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
