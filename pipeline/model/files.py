"""A model on disk: a zarr group of arrays, and everything else as JSON in its attributes. No pickle.

=====================  ================================================================================
`word_topics`          float32 (D, K), and likewise the other arrays of `_KEPT` and of the head
`document_hashes`      int64, the smallest hashes of the training documents; and where they were a view of
                       their store, `document_rows`: a bit for each of its documents
`basis`, `weights`     the head's largest and `memory_values`: float16, which holds them exactly, or float32
`names/labels/...`     label names, as in a corpus; and `names/terms/...`
attribute `threepass`  format `threepass-model`, version 1, the estimator's parameters, its statistics,
                       stage times, single numbers, how texts become words where it was fitted to texts, the
                       CRC-32C of every array, and a checksum of all this; written last
=====================  ================================================================================

All of it is verified when a model is loaded: the attributes and each array against their checksums; before
an array is read, that it has the type and shape that follow from the others; that numbers are finite, and
that the memory's rows and columns are in range. What `threepass.storage.guard` says holds as well. (Models
from before there were any have no checksums of their attributes and names.)
"""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
import zarr.storage

from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import StoreError
from ..linalg.tall import row_slices
from ..moments.error_bars import ErrorBars
from ..moments.pairs import Statistics
from ..parts.calibration import Calibration
from ..parts.heads import KINDS, Head, Ridge, Topics
from ..parts.weighting import SCHEMES, Weighting
from ..passes.checkpoints import RUN_LOG
from ..passes.document_hashes import MOST_HASHES
from ..storage.arrays import Shape, open_array, read_array, read_names, write_array, write_names
from ..storage.destination import new_directory, new_file
from ..storage.guard import DamageError
from ..storage.marks import has_mark, open_marked, write_mark
from ..text.info import TextInfo
from ..types import Array
from .labeler import MomentLabeler
from .learn import Clock
from .parameters import check_parameters
from .training_documents import TrainingDocuments

FORMAT = "threepass-model"
VERSION = 1
_KEPT = {
    "whitening": np.float32,
    "eigenvalues": np.float64,
    "tensor_eigenvalues": np.float64,
    "label_counts": np.int64,
}
_HALVED = ("basis", "weights", "memory_values")
_NUMBERS = ("tensor_residual", "n_passes", "fit_stats")


def save_model(model: MomentLabeler, path: Path, overwrite: bool) -> None:
    with _new_model(path, overwrite) as partial:
        root, checksums = _write_arrays(model, partial)
        _write_mark(model, root, checksums)


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
        clock = Clock(model.fit_stats_, how.get("progress"))
        clock.begin("save")
        root, checksums = _write_arrays(model, partial)
        clock.mark("save")
        _write_mark(model, root, checksums)
    if run_log is not None:
        with new_file(run_log, overwrite=True) as unfinished:
            shutil.copyfile(run_dir / RUN_LOG, unfinished)
    shutil.rmtree(run_dir, ignore_errors=True)


def _new_model(path: Path, overwrite: bool) -> AbstractContextManager[Path]:
    return new_directory(path, overwrite=overwrite, is_ours=lambda p: has_mark(p, FORMAT))


def _write_arrays(model: MomentLabeler, folder: Path) -> tuple[zarr.Group, dict[str, int]]:
    root = zarr.create_group(zarr.storage.LocalStore(folder), zarr_format=3)
    arrays = {name: np.asarray(getattr(model, f"{name}_"), dtype) for name, dtype in _KEPT.items()}
    arrays |= {"word_errors": model.error_bars_.words, "label_errors": model.error_bars_.labels}
    arrays |= _head_arrays(model.head_)
    known = model.training_documents_
    if known is not None:
        arrays["document_hashes"] = known.hashes
        if known.rows is not None:
            arrays["document_rows"] = known.rows
    checksums: dict[str, int] = {}
    for name, array in arrays.items():
        halved = name in _HALVED and _fits_half(array)
        checksums |= write_array(root, name, array, dtype=np.float16 if halved else None)
    checksums |= write_names(root, "labels", model.label_names_)
    checksums |= write_names(root, "terms", model.term_names_)
    return root, checksums


def _write_mark(model: MomentLabeler, root: zarr.Group, checksums: dict[str, int]) -> None:
    known = model.training_documents_
    mark = {
        "parameters": {name: _plain(value) for name, value in model.get_params().items()},
        "crc32c": checksums,
        "statistics": asdict(model.statistics_),
        "head": _head_numbers(model.head_),
        "text": None if model.text_ is None else model.text_.as_dict(),
        "documents": None if known is None else {"store": known.store, "all": known.rows is None},
        **{name: getattr(model, f"{name}_") for name in _NUMBERS},
    }
    write_mark(root, FORMAT, VERSION, mark)


def load_model(path: str | Path) -> MomentLabeler:
    """Read a model back.

    Raises
    ------
    StoreError
        There is no whole model of a known version.
    """
    root, mark = open_model(path)
    try:
        return _loaded(root, mark)
    except DamageError as damage:
        raise damaged(path, damage) from damage
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise damaged(path, DamageError("its attributes", repr(error))) from error


def open_model(path: str | Path) -> tuple[zarr.Group, dict[str, Any]]:
    """The group that holds a model, and its mark."""
    return open_marked(path, FORMAT, VERSION, "model", "threepass fit CORPUS MODEL")


def damaged(path: str | Path, damage: DamageError) -> StoreError:
    return StoreError(f"The model at {path} is damaged at {damage.what}: {damage.how}. Fit it again.")


def _loaded(root: zarr.Group, mark: dict[str, Any]) -> MomentLabeler:
    stored = _Stored(root, mark["crc32c"])
    model = MomentLabeler(**mark["parameters"])
    check_parameters(model)
    model.statistics_ = _statistics(mark["statistics"])
    model.tensor_residual_ = _real(mark["tensor_residual"], finite=False)
    model.n_passes_ = _whole(mark["n_passes"])
    model.fit_stats_ = dict(mark["fit_stats"])
    # The small arrays first: they tell what the large ones have to be.
    model.label_counts_ = stored.read("label_counts", (None,), np.int64)
    model.eigenvalues_ = stored.read("eigenvalues", (None,), np.float64)
    L, K = len(model.label_counts_), len(model.eigenvalues_)
    D = open_array(root, "word_topics", (None, K), np.float32).shape[0]
    if min(D, K, L) < 1 or model.label_counts_.min() < 0:
        raise DamageError("label_counts", f"{D} words, {L} labels and {K} topics, or counts below 0")
    if model.eigenvalues_.min() <= 0:
        raise DamageError("eigenvalues", "they are not all positive")
    model.tensor_eigenvalues_ = stored.read("tensor_eigenvalues", (K,), np.float64)
    bars = (stored.read(name, (K,), np.float64, finite=False) for name in ("word_errors", "label_errors"))
    model.error_bars_ = ErrorBars(*bars)
    model.label_names_ = read_names(root, "labels", L, stored.checksums)
    model.term_names_ = read_names(root, "terms", D, stored.checksums)
    model.head_ = _head(stored, mark["head"], (D, K, L))
    model.whitening_ = stored.read("whitening", (D, K), np.float32)
    model.n_features_in_ = D
    model.training_documents_ = _training_documents(stored, mark.get("documents"))
    model.text_ = None if mark.get("text") is None else TextInfo.from_dict(mark["text"])
    bits = None if model.text_ is None else model.text_.tokenizer.hash_bits
    if bits is not None and 2**bits != D:  # compiled loops do not look where they write
        raise ValueError(f"words are hashed to {bits} bits, and there are {D}")
    model.guarantee()  # raises where statistics and eigenvalues are not those of any corpus
    return model


def _training_documents(stored: _Stored, numbers: Any) -> TrainingDocuments | None:
    """What tells them from others; None in models from before it was kept."""
    if numbers is None:
        return None
    hashes = stored.read("document_hashes", (None,), np.int64)
    if len(hashes) > MOST_HASHES or (hashes[1:] <= hashes[:-1]).any() or hashes.min(initial=0) < 0:
        raise DamageError("document_hashes", "they do not increase from 0 or above, or are too many")
    rows = None if numbers["all"] else stored.read("document_rows", (None,), np.uint8)
    return TrainingDocuments(str(numbers["store"]), rows, hashes)


def _head_arrays(head: Head) -> dict[str, Array]:
    arrays = {"word_topics": head.topics.O, "label_topics": head.topics.Q, "topic_weights": head.topics.pi}
    if head.ridge is not None and head.weighting is not None:
        arrays |= {
            "idf": head.weighting.idf,
            "basis": head.ridge.B,
            "waves": head.ridge.waves,
            "phases": head.ridge.phases,
            "weights": head.ridge.A,
        }
    if head.memory is not None:
        arrays |= {
            "memory_indptr": head.memory.indptr,
            "memory_labels": head.memory.indices,
            "memory_values": head.memory.values_as(np.float32),
        }
    if head.calibration is not None:
        arrays |= {
            "calibration_scores": head.calibration.scores,
            "calibration_probabilities": head.calibration.probabilities,
        }
    return arrays


def _head_numbers(head: Head) -> dict[str, Any]:
    return {
        "kind": head.kind,
        "smoothing": head.topics.smoothing,
        "temperature": head.topics.temperature,
        "topics_weight": head.topics_weight,
        "threshold": head.threshold,
        "weighting": None if head.weighting is None else head.weighting.scheme,
        "has_memory": head.memory is not None,
    }


def _head(stored: _Stored, numbers: dict[str, Any], sizes: tuple[int, int, int]) -> Head:
    D, K, L = sizes
    kind, scheme = numbers["kind"], numbers["weighting"]
    if kind not in KINDS or (scheme not in SCHEMES if kind in ("ridge", "blend") else scheme is not None):
        raise ValueError(f"the head '{kind}' with the weighting '{scheme}' is not known")
    topics = Topics(
        stored.read("word_topics", (D, K), np.float32),
        stored.read("label_topics", (L, K), np.float32),
        stored.read("topic_weights", (K,), np.float64),
        _real(numbers["smoothing"]),
        _real(numbers["temperature"]),
    )
    if not (0 <= topics.smoothing <= 1 and topics.temperature > 0):
        raise ValueError(f"smoothing {topics.smoothing}, temperature {topics.temperature}")
    for name, array in (("word_topics", topics.O), ("label_topics", topics.Q), ("topic_weights", topics.pi)):
        if array.min() < 0:
            raise DamageError(name, "probabilities are below 0")
    threshold = numbers.get("threshold")  # models from before there was one have none
    if threshold is not None and not 0 <= _real(threshold) <= 1:
        raise ValueError(f"the threshold {threshold}")
    if scheme is None:
        return Head(kind, topics, threshold=threshold)
    p = open_array(stored.root, "basis", (D, None), np.float16, np.float32).shape[1]
    phases = stored.read("phases", (None,), np.float32)
    m = len(phases)
    return Head(
        kind,
        topics,
        Weighting(stored.read("idf", (D,), np.float32), scheme),
        Ridge(
            stored.read_floats("basis", (D, p)),
            stored.read("waves", (p, m), np.float32),
            phases,
            stored.read_floats("weights", (L, p + m + 1)),
        ),
        _memory(stored, D, L) if numbers["has_memory"] else None,
        _real(numbers["topics_weight"]),
        _calibration(stored),
        threshold,
    )


def _memory(stored: _Stored, D: int, L: int) -> SparseRows:
    indptr = stored.read("memory_indptr", (D + 1,), np.int64)
    labels = stored.read("memory_labels", (None,), np.int32)
    memory = SparseRows(indptr, labels, stored.read_floats("memory_values", labels.shape), L)
    if (flaw := memory.flaw()) is not None:  # compiled loops do not look where they write
        raise DamageError("memory_labels", flaw)
    return memory


def _calibration(stored: _Stored) -> Calibration:
    scores = stored.read("calibration_scores", (None,), np.float32)
    probabilities = stored.read("calibration_probabilities", scores.shape, np.float32)
    for name, knots in (("calibration_scores", scores), ("calibration_probabilities", probabilities)):
        if not len(knots) or (knots[1:] < knots[:-1]).any():
            raise DamageError(name, "it does not increase")
    with np.errstate(over="ignore"):
        span = scores[-1] - scores[0]
    if not (np.isfinite(span) and probabilities[0] >= 0 and probabilities[-1] <= 1):
        raise DamageError(
            "calibration_probabilities", "they are not all between 0 and 1, for scores of some range"
        )
    return Calibration(scores, probabilities)


def _statistics(numbers: dict[str, Any]) -> Statistics:
    statistics = Statistics(**numbers)
    for name, value in asdict(statistics).items():
        number = _whole(value) if name in ("n_docs", "n_labelled") else _real(value)
        if number < 0 or statistics.n_docs < 1:
            raise ValueError(f"{name} is {number} of {statistics.n_docs} documents")
    return statistics


class _Stored:
    """The arrays of a saved model, each checked as it is read."""

    def __init__(self, root: zarr.Group, checksums: dict[str, int]) -> None:
        self.root = root
        self.checksums = {str(name): _whole(crc) for name, crc in checksums.items()}

    def read(self, name: str, shape: Shape, *dtypes: npt.DTypeLike, finite: bool = True) -> Array:
        """An array of one of these types."""
        array = read_array(self.root, name, shape, *dtypes, crc=self.checksums[name])
        if finite and array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
            raise DamageError(name, "not all of its numbers are finite")
        return array

    def read_floats(self, name: str, shape: Shape) -> Array:
        """float32, whether it was saved in half or in single precision."""
        return self.read(name, shape, np.float16, np.float32).astype(np.float32, copy=False)


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**48:
        raise ValueError(f"{str(value)[:50]!r} is not a count")
    return value


def _real(value: Any, finite: bool = True) -> float:
    if type(value) not in (int, float) or (finite and not abs(value) < 1e300):
        raise ValueError(f"{str(value)[:50]!r} is not a finite number")
    return float(value)


def _fits_half(array: Array) -> bool:
    """Whether nothing is lost in half precision; some rows at a time, for the array may be large."""
    with np.errstate(over="ignore"):
        return all(
            np.array_equal(array[rows].astype(np.float16), array[rows]) for rows in row_slices(len(array))
        )


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: numpy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value
