"""A model on disk: a zarr group of arrays, and everything else as JSON in its attributes. No pickle.

=======================  ==============================================================================
`moments/...`            the paper's topics: `whitening` (D, K), `label_topics` (L, K), `eigenvalues`,
                         `tensor_eigenvalues`, `tensor_eigenvectors`, `word_errors`, `label_errors`
`parts/NAME/...`         arrays of each part of the score, as its scorer names them; float16 where that
                         holds them exactly
`idf`                    float32 (D,), weights of words
`calibration/...`        `scores` and `probabilities`, where scores are calibrated
`label_counts`           int64 (L,)
`document_hashes`        int64, the smallest hashes of the training documents; and where they were a view of
                         their store, `document_rows`: a bit for each of its documents
`names/labels/...`       label names, as in a corpus; `names/terms/...`; and `names/features/...`, columns of
                         the table that it was fitted to
attribute `threepass`    format `threepass-model`, version 2, the estimator's parameters, statistics, stage
                         times, single numbers, how texts become words where it was fitted to texts, the
                         CRC-32C of every array, and a checksum of all this; written last
=======================  ==============================================================================

All of it is verified when a model is loaded: the attributes and each array against their checksums; before
an array is read, that it has the type and shape that follow from the others; that numbers are finite, and
that rows and columns of sparse matrices are in range. What `threepass.storage.guard` says holds as well.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
import zarr.storage

from ..errors import InputError, StoreError
from ..linalg.tall import row_slices
from ..moments.error_bars import ErrorBars
from ..moments.pairs import Statistics
from ..moments.topics import MomentTopics
from ..parts.blend import Blend
from ..parts.calibration import Calibration
from ..parts.heads import HEADS
from ..parts.part import Scorer
from ..parts.weighting import SCHEMES, Weighting
from ..passes.document_hashes import MOST_HASHES
from ..storage.arrays import Shape, read_array, read_names, write_array, write_names
from ..storage.destination import new_directory, new_file
from ..storage.guard import DamageError
from ..storage.marks import has_mark, open_marked, write_mark
from ..text.info import TextInfo
from ..types import Array
from .parameters import NAMES, check_parameters
from .predictor import Predictor
from .training_documents import TrainingDocuments

FORMAT = "threepass-model"
VERSION = 2


def save_predictor(predictor: Predictor, path: Path, overwrite: bool) -> None:
    """Write a model; it appears at `path` only once it is whole."""
    with _new_model(path, overwrite) as partial:
        root, checksums = _write_arrays(predictor, partial)
        _write_mark(predictor, root, checksums)


@contextmanager
def saving(
    path: Path, overwrite: bool, run_dir: Path, run_log: Path | None
) -> Iterator[Callable[[Predictor], None]]:
    """Hold the destination of a fit from its start; what the fit left on the way is removed last.

    Yields what writes the arrays. The mark, which has all of the fit's statistics, is written in the end.
    """
    with _new_model(path, overwrite) as partial:
        written: list[tuple[Predictor, zarr.Group, dict[str, int]]] = []

        def save(predictor: Predictor) -> None:
            written.append((predictor, *_write_arrays(predictor, partial)))

        yield save
        _write_mark(*written[0])
    if run_log is not None:
        from ..passes.checkpoints import RUN_LOG  # not needed to load a model

        with new_file(run_log, overwrite=True) as unfinished:
            shutil.copyfile(run_dir / RUN_LOG, unfinished)
    shutil.rmtree(run_dir, ignore_errors=True)


def _new_model(path: Path, overwrite: bool) -> AbstractContextManager[Path]:
    return new_directory(path, overwrite=overwrite, is_ours=lambda p: has_mark(p, FORMAT))


def _write_arrays(predictor: Predictor, folder: Path) -> tuple[zarr.Group, dict[str, int]]:
    root = zarr.create_group(zarr.storage.LocalStore(folder), zarr_format=3)
    moments, blend = predictor.moments, predictor.blend
    arrays = {
        "moments/whitening": moments.W,
        "moments/label_topics": moments.Q,
        "moments/eigenvalues": moments.eigenvalues,
        "moments/tensor_eigenvalues": moments.tensor_eigenvalues,
        "moments/tensor_eigenvectors": moments.U,
        "moments/word_errors": moments.error_bars.words,
        "moments/label_errors": moments.error_bars.labels,
        "label_counts": predictor.label_counts,
        "idf": blend.weighting.idf,
    }
    if blend.calibration is not None:
        arrays["calibration/scores"] = blend.calibration.scores
        arrays["calibration/probabilities"] = blend.calibration.probabilities
    known = predictor.training_documents
    if known is not None:
        arrays["document_hashes"] = known.hashes
        if known.rows is not None:
            arrays["document_rows"] = known.rows
    checksums: dict[str, int] = {}
    for name, array in arrays.items():
        checksums |= write_array(root, name, np.asarray(array))
    for part in blend.parts:
        for name, array in part.arrays().items():
            halved = name in part.halved and _fits_half(array)
            path = f"parts/{part.name}/{name}"
            checksums |= write_array(root, path, array, dtype=np.float16 if halved else None)
    checksums |= write_names(root, "labels", predictor.label_names)
    checksums |= write_names(root, "terms", predictor.term_names)
    if predictor.feature_names is not None:
        checksums |= write_names(root, "features", [str(name) for name in predictor.feature_names])
    return root, checksums


def _write_mark(predictor: Predictor, root: zarr.Group, checksums: dict[str, int]) -> None:
    moments, blend, known = predictor.moments, predictor.blend, predictor.training_documents
    mark = {
        "parameters": {name: _plain(value) for name, value in predictor.parameters.items()},
        "crc32c": checksums,
        "statistics": asdict(moments.statistics),
        "moments": {
            "tensor_residual": moments.tensor_residual,
            "prior": moments.prior,
            "drop_self_pairs": moments.drop_self_pairs,
        },
        "head": {
            "name": blend.head,
            "weighting": blend.weighting.scheme,
            "threshold": blend.threshold,
            "is_calibrated": blend.calibration is not None,
            "parts": {part.name: part.numbers() for part in blend.parts},
        },
        "text": None if predictor.text is None else predictor.text.as_dict(),
        "documents": None if known is None else {"store": known.store, "all": known.rows is None},
        "has_feature_names": predictor.feature_names is not None,
        "n_passes": predictor.n_passes,
        "fit_stats": predictor.fit_stats,
    }
    write_mark(root, FORMAT, VERSION, mark)


def load_predictor(path: str | Path) -> Predictor:
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


def _loaded(root: zarr.Group, mark: dict[str, Any]) -> Predictor:
    stored = _Stored(root, mark["crc32c"])
    # The small arrays first: they tell what the large ones have to be.
    label_counts = stored.read("label_counts", (None,), np.int64)
    if not len(label_counts) or label_counts.min() < 0:
        raise DamageError("label_counts", f"{len(label_counts)} labels, or counts below 0")
    moments = _moments(stored, mark, len(label_counts))
    D, L = len(moments.W), len(label_counts)
    text = None if mark["text"] is None else TextInfo.from_dict(mark["text"])
    bits = None if text is None else text.tokenizer.hash_bits
    if bits is not None and 2**bits != D:  # compiled loops do not look where they write
        raise ValueError(f"words are hashed to {bits} bits, and there are {D}")
    names = read_names(root, "features", D, stored.checksums) if mark["has_feature_names"] else None
    moments.guarantee()  # raises where statistics and eigenvalues are not those of any corpus
    return Predictor(
        moments,
        _blend(stored, mark["head"], moments),
        read_names(root, "terms", D, stored.checksums),
        read_names(root, "labels", L, stored.checksums),
        label_counts,
        text,
        _training_documents(stored, mark["documents"]),
        dict(mark["fit_stats"]),
        _parameters(mark["parameters"]),
        _whole(mark["n_passes"]),
        feature_names=None if names is None else np.array(names, object),
    )


def _parameters(given: dict[str, Any]) -> dict[str, Any]:
    if set(given) != set(NAMES):
        raise ValueError(f"the parameters {sorted(set(given) ^ set(NAMES))}")
    try:
        check_parameters(given)
    except InputError as error:
        raise ValueError(str(error)) from error
    return dict(given)


def _moments(stored: _Stored, mark: dict[str, Any], n_labels: int) -> MomentTopics:
    own, numbers = stored.below("moments"), mark["moments"]
    eigenvalues = own.read("eigenvalues", (None,), np.float64)
    K = len(eigenvalues)
    if not K or eigenvalues.min() <= 0:
        raise DamageError("moments/eigenvalues", "they are not all positive")
    if numbers["prior"] not in ("eigenvalues", "uniform"):
        raise ValueError(f"the prior '{numbers['prior']}'")
    bars = (own.read(name, (K,), np.float64, finite=False) for name in ("word_errors", "label_errors"))
    Q = own.read("label_topics", (n_labels, K), np.float32)
    if Q.min() < 0:
        raise DamageError("moments/label_topics", "probabilities are below 0")
    W = own.read("whitening", (None, K), np.float32)
    if not len(W):
        raise DamageError("moments/whitening", "there are no words")
    return MomentTopics(
        W,
        eigenvalues,
        own.read("tensor_eigenvectors", (K, K), np.float64),
        own.read("tensor_eigenvalues", (K,), np.float64),
        _real(numbers["tensor_residual"], finite=False),
        Q,
        _statistics(mark["statistics"]),
        ErrorBars(*bars),
        numbers["prior"],
        bool(numbers["drop_self_pairs"]),
    )


def _blend(stored: _Stored, head: dict[str, Any], moments: MomentTopics) -> Blend:
    D, L = len(moments.W), len(moments.Q)
    if head["name"] not in HEADS or head["weighting"] not in SCHEMES:
        raise ValueError(f"the head '{head['name']}' with the weighting '{head['weighting']}' is not known")
    known, parts = HEADS[head["name"]], []
    for name, numbers in head["parts"].items():
        kind: type[Scorer] = known.scorer(name)
        parts.append(kind.load(stored.below(f"parts/{name}", numbers), moments))
    if not parts or known.is_calibrated != bool(head["is_calibrated"]):
        raise ValueError(f"the head '{head['name']}' with {len(parts)} parts")
    threshold = head["threshold"]
    if threshold is not None and not 0 <= _real(threshold) <= 1:
        raise ValueError(f"the threshold {threshold}")
    return Blend(
        head["name"],
        tuple(parts),
        Weighting(stored.read("idf", (D,), np.float32), head["weighting"]),
        L,
        _calibration(stored.below("calibration")) if known.is_calibrated else None,
        threshold,
    )


def _training_documents(stored: _Stored, numbers: Any) -> TrainingDocuments | None:
    """Read what tells the training documents from others."""
    if numbers is None:
        return None
    hashes = stored.read("document_hashes", (None,), np.int64)
    if len(hashes) > MOST_HASHES or (hashes[1:] <= hashes[:-1]).any() or hashes.min(initial=0) < 0:
        raise DamageError("document_hashes", "they do not increase from 0 or above, or are too many")
    rows = None if numbers["all"] else stored.read("document_rows", (None,), np.uint8)
    return TrainingDocuments(str(numbers["store"]), rows, hashes)


def _calibration(stored: _Stored) -> Calibration:
    scores = stored.read("scores", (None,), np.float32)
    probabilities = stored.read("probabilities", scores.shape, np.float32)
    for name, knots in (("scores", scores), ("probabilities", probabilities)):
        if not len(knots) or (knots[1:] < knots[:-1]).any():
            raise stored.damaged(name, "it does not increase")
    with np.errstate(over="ignore"):
        span = scores[-1] - scores[0]
    if not (np.isfinite(span) and probabilities[0] >= 0 and probabilities[-1] <= 1):
        raise stored.damaged("probabilities", "they are not all between 0 and 1, for scores of some range")
    return Calibration(scores, probabilities)


def _statistics(numbers: dict[str, Any]) -> Statistics:
    statistics = Statistics(**numbers)
    for name, value in asdict(statistics).items():
        number = _whole(value) if name in ("n_docs", "n_labelled") else _real(value)
        if number < 0 or statistics.n_docs < 1:
            raise ValueError(f"{name} is {number} of {statistics.n_docs} documents")
    return statistics


class _Stored:
    """Arrays of a saved model below a path, each checked as it is read; and single numbers."""

    def __init__(
        self,
        root: zarr.Group,
        checksums: dict[str, int],
        path: str = "",
        numbers: dict[str, Any] | None = None,
    ) -> None:
        self._root, self._path, self._numbers = root, path, numbers or {}
        self.checksums = {str(name): _whole(crc) for name, crc in checksums.items()}

    def below(self, path: str, numbers: dict[str, Any] | None = None) -> _Stored:
        """View of the arrays below another path."""
        return _Stored(self._root, self.checksums, f"{path}/", numbers)

    def read(self, name: str, shape: Shape, *dtypes: npt.DTypeLike, finite: bool = True) -> Array:
        """An array of this shape and one of these types."""
        path = self._path + name
        array = read_array(self._root, path, shape, *dtypes, crc=self.checksums[path])
        if finite:
            self._check_finite(name, array)
        return array

    def read_floats(self, name: str, shape: Shape) -> Array:
        """float32, whether it was saved in half or in single precision."""
        array = self.read(name, shape, np.float16, np.float32, finite=False).astype(np.float32, copy=False)
        self._check_finite(name, array)  # of half precision it takes ten times as long
        return array

    def _check_finite(self, name: str, array: Array) -> None:
        if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
            raise self.damaged(name, "not all of its numbers are finite")

    def number(self, name: str, least: float, most: float) -> float:
        """A number between two others."""
        value = _real(self._numbers[name])
        if not least <= value <= most:
            raise ValueError(f"{self._path}{name} is {value}")
        return value

    def damaged(self, name: str, how: str) -> DamageError:
        return DamageError(self._path + name, how)


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
    """A parameter as JSON has it: numpy's numbers as Python's; a generator, which draws seeds, as 0."""
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return 0
    return value.item() if isinstance(value, np.generic) else value
