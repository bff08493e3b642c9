"""A model on disk: a zarr group of arrays, and everything else as JSON in its attributes. No pickle.

=====================  ================================================================================
`word_topics`          float32 (D, K), and likewise the other arrays of `_KEPT` and of the head
`basis`, `weights`     the head's largest and `memory_values`: float16, which holds them exactly, or float32
`names/labels/...`     label names, as in a corpus; and `names/terms/...`
attribute `threepass`  format `threepass-model`, version 1, the estimator's parameters, its statistics,
                       stage times, single numbers, and the CRC-32C of every array; written last
=====================  ================================================================================
"""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarr.storage

from pipeline.corpus import format as fmt
from pipeline.corpus.rows import Array, SparseRows
from pipeline.corpus.store import Corpus
from pipeline.destination import new_directory, new_file
from pipeline.errors import StoreError
from pipeline.model.calibration import Calibration
from pipeline.model.error_bars import ErrorBars
from pipeline.model.heads import MEANING, Head, Ridge, Topics
from pipeline.model.labeler import MomentLabeler
from pipeline.passes.checkpoints import RUN_LOG
from pipeline.passes.pairs import Statistics
from pipeline.passes.weighting import SCHEMES, Weighting

FORMAT = "threepass-model"
VERSION = 1
_KEPT = {
    "whitening": np.float32,
    "eigenvalues": np.float64,
    "tensor_eigenvalues": np.float64,
    "label_counts": np.int64,
}
_NUMBERS = ("tensor_residual", "n_passes", "fit_stats")


def save_model(model: MomentLabeler, path: Path, overwrite: bool) -> None:
    with _new_model(path, overwrite) as partial:
        _write_model(model, partial)


def fit_to(
    model: MomentLabeler,
    corpus: Corpus,
    path: Path,
    overwrite: bool,
    run_dir: Path,
    run_log: Path | None,
    **how: Any,
) -> None:
    """Fit and save, holding the destination from the start; what the fit left on the way is removed last."""
    with _new_model(path, overwrite) as partial:
        model.fit(corpus, run_dir=run_dir, **how)
        _write_model(model, partial)
    if run_log is not None:
        with new_file(run_log, overwrite=True) as unfinished:
            shutil.copyfile(run_dir / RUN_LOG, unfinished)
    shutil.rmtree(run_dir, ignore_errors=True)


def _new_model(path: Path, overwrite: bool) -> AbstractContextManager[Path]:
    return new_directory(path, overwrite=overwrite, is_ours=lambda p: fmt.has_mark(p, FORMAT))


def _write_model(model: MomentLabeler, folder: Path) -> None:
    root = zarr.create_group(zarr.storage.LocalStore(folder), zarr_format=3)
    arrays = {name: np.asarray(getattr(model, f"{name}_"), dtype) for name, dtype in _KEPT.items()}
    arrays |= {"word_errors": model.error_bars_.words, "label_errors": model.error_bars_.labels}
    arrays |= _head_arrays(model.head_)
    for name, array in arrays.items():
        fmt.write_array(root, name, array)
    fmt.write_names(root, "labels", model.label_names_)
    fmt.write_names(root, "terms", model.term_names_)
    root.attrs[fmt.ATTRIBUTE] = {
        "format": FORMAT,
        "version": VERSION,
        "parameters": {name: _plain(value) for name, value in model.get_params().items()},
        "crc32c": {name: fmt.crc32c(array) for name, array in arrays.items()},
        "statistics": asdict(model.statistics_),
        "head": _head_numbers(model.head_),
        **{name: getattr(model, f"{name}_") for name in _NUMBERS},
    }


def load_model(path: str | Path) -> MomentLabeler:
    """Read a model back.

    Raises
    ------
    StoreError
        There is no whole model of a known version.
    """
    root, mark = fmt.open_marked(path, FORMAT, VERSION, "model", "threepass fit CORPUS MODEL")
    try:
        stored = _Stored(root, mark["crc32c"])
        model = MomentLabeler(**mark["parameters"])
        model.statistics_ = Statistics(**mark["statistics"])
        for name in _NUMBERS:
            setattr(model, f"{name}_", mark[name])
        for name, dtype in _KEPT.items():
            setattr(model, f"{name}_", stored.read(name, dtype))
        words, labels = (stored.read(name, np.float64) for name in ("word_errors", "label_errors"))
        model.error_bars_ = ErrorBars(words, labels)
        model.label_names_ = fmt.read_names(root, "labels") or []
        model.term_names_ = fmt.read_names(root, "terms") or []
        model.head_ = _head(stored, mark["head"])
        fits = _fits(model)
    except (KeyError, TypeError, ValueError, IndexError, StoreError) as error:
        raise _damaged(path, repr(error)) from error
    if not fits:
        raise _damaged(path, "its arrays do not fit each other")
    model.n_features_in_ = len(model.word_topics_)
    return model


def _head_arrays(head: Head) -> dict[str, Array]:
    arrays = {"word_topics": head.topics.O, "label_topics": head.topics.Q, "topic_weights": head.topics.pi}
    if head.ridge is not None and head.weighting is not None:
        arrays |= {
            "idf": head.weighting.idf,
            "basis": _smallest(head.ridge.B),
            "waves": head.ridge.waves,
            "phases": head.ridge.phases,
            "weights": _smallest(head.ridge.A),
        }
    if head.memory is not None:
        arrays |= {
            "memory_indptr": head.memory.indptr,
            "memory_labels": head.memory.indices,
            "memory_values": _smallest(head.memory.values_as(np.float32)),
        }
    if head.calibration is not None:
        arrays |= {
            "calibration_scores": head.calibration.scores,
            "calibration_probabilities": head.calibration.probabilities,
        }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _head_numbers(head: Head) -> dict[str, Any]:
    return {
        "kind": head.kind,
        "smoothing": head.topics.smoothing,
        "temperature": head.topics.temperature,
        "topics_weight": head.topics_weight,
        "weighting": None if head.weighting is None else head.weighting.scheme,
        "has_memory": head.memory is not None,
    }


def _head(stored: _Stored, numbers: dict[str, Any]) -> Head:
    if numbers["kind"] not in MEANING:
        raise ValueError(f"the head '{numbers['kind']}' is not known")
    topics = Topics(
        stored.read("word_topics", np.float32),
        stored.read("label_topics", np.float32),
        stored.read("topic_weights", np.float64),
        float(numbers["smoothing"]),
        float(numbers["temperature"]),
    )
    if numbers["weighting"] is None:
        return Head(numbers["kind"], topics)
    if numbers["weighting"] not in SCHEMES:
        raise ValueError(f"the weighting '{numbers['weighting']}' is not known")
    memory = None
    if numbers["has_memory"]:
        memory = SparseRows(
            stored.read("memory_indptr", np.int64),
            stored.read("memory_labels", np.int32),
            stored.read_floats("memory_values"),
            len(topics.Q),
        )
    return Head(
        numbers["kind"],
        topics,
        Weighting(stored.read("idf", np.float32), numbers["weighting"]),
        Ridge(
            stored.read_floats("basis"),
            stored.read("waves", np.float32),
            stored.read("phases", np.float32),
            stored.read_floats("weights"),
        ),
        memory,
        float(numbers["topics_weight"]),
        Calibration(
            stored.read("calibration_scores", np.float32),
            stored.read("calibration_probabilities", np.float32),
        ),
    )


def _fits(model: MomentLabeler) -> bool:
    """Whether the arrays have the shapes that they must have among each other."""
    head = model.head_
    D, K = head.topics.O.shape
    L = len(model.label_counts_)
    fits = (
        model.whitening_.shape == (D, K)
        and head.topics.Q.shape == (L, K)
        and len(model.label_names_) == L
        and len(model.term_names_) == D
        and len(head.topics.pi) == len(model.tensor_eigenvalues_) == len(model.eigenvalues_) == K
    )
    if head.ridge is not None and head.weighting is not None and head.calibration is not None:
        p, m = head.ridge.waves.shape
        knots = head.calibration
        fits &= (
            head.ridge.B.shape == (D, p)
            and head.ridge.phases.shape == (m,)
            and head.ridge.A.shape == (L, p + m + 1)
            and head.weighting.idf.shape == (D,)
            and knots.scores.shape == knots.probabilities.shape
            and len(knots.scores) > 0
        )
    if head.memory is not None:
        C = head.memory
        fits &= (
            C.n_rows == D
            and bool((np.diff(C.indptr) >= 0).all())
            and C.indptr[0] == 0
            and C.indptr[-1] == C.nnz == len(C.values_as(np.float32))
            and bool(((C.indices >= 0) & (C.indices < L)).all())
        )
    return fits


class _Stored:
    """The arrays of a saved model, each checked as it is read."""

    def __init__(self, root: zarr.Group, checksums: dict[str, int]) -> None:
        self._root = root
        self._checksums = checksums

    def read(self, name: str, *dtypes: Any) -> Any:
        """An array, which must be of one of these types."""
        array = fmt.read_array(self._root, name)
        if array.dtype not in dtypes or fmt.crc32c(array) != self._checksums[name]:
            wanted = " or ".join(str(np.dtype(dtype)) for dtype in dtypes)
            raise ValueError(f"'{name}' is not the array of type {wanted} that was saved")
        return array

    def read_floats(self, name: str) -> Any:
        """float32, whether it was saved in half or in single precision."""
        return self.read(name, np.float16, np.float32).astype(np.float32, copy=False)


def _smallest(array: Array) -> Array:
    """In half precision, where nothing is lost by it."""
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    return half if np.array_equal(half, array) else array


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: numpy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _damaged(path: str | Path, how: str) -> StoreError:
    return StoreError(f"The model at {path} is damaged: {how}. Fit it again.")
