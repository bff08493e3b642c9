"""Training data of all kinds as a corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data

from ..corpus.store import Corpus
from ..errors import InputError
from ..ingest.matrices import ingest_matrices
from ..storage.destination import temporary_folder
from .inputs import as_label_matrix
from .texts import as_text_list, tag_lists


def validated(estimator: Any, X: Any, Y: Any = None) -> tuple[Any, Any]:
    """Check input by scikit-learn's own rules; with Y, when fitting."""
    try:
        if Y is None:
            return validate_data(estimator, X, accept_sparse="csr", reset=False), None
        Y = as_label_matrix(Y)
        X, Y = check_X_y(X, Y, accept_sparse="csr", multi_output=True, estimator=estimator)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error
    return X, Y.reshape(-1, 1) if Y.ndim == 1 else Y


@contextmanager
def training_corpus(X: Any, Y: Any, n_threads: int | None) -> Iterator[Corpus]:
    """X itself when it is a corpus; else texts or matrices as a corpus in a temporary folder."""
    if isinstance(X, Corpus):
        if Y is not None:
            raise InputError(
                "A corpus holds its own labels. Found a second argument. Call fit(corpus) alone."
            )
        yield X
        return
    texts = as_text_list(X)
    if Y is None:
        raise InputError("requires y to be passed, but the target y is None. Call fit(X, Y) or fit(corpus).")
    with temporary_folder() as folder:
        if texts is None:
            yield ingest_matrices(X, Y, folder / "corpus.zarr", n_threads=n_threads)
        else:
            yield _ingested(texts, tag_lists(Y, len(texts)), folder, n_threads)


def _ingested(texts: list[str], tags: list[list[str]], folder: Path, n_threads: int | None) -> Corpus:
    from ..ingest.text import ingest_text

    path = folder / "texts.jsonl"
    with path.open("w") as file:
        for text, own in zip(texts, tags, strict=True):
            file.write(json.dumps({"text": text, "labels": own}) + "\n")
    return ingest_text(path, folder / "corpus.zarr", text="text", labels="labels", n_threads=n_threads)
