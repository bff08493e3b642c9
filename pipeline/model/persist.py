"""A model on disk: a zarr group of arrays, and everything else as JSON in its attributes. No pickle.

=====================  ================================================================================
`word_topics`          float32 (D, K), and likewise the other fitted arrays, under their attribute's name
`names/labels/...`     label names, as in a corpus
attribute `threepass`  format `threepass-model`, version 1, the estimator's parameters, its statistics,
                       stage times, single numbers, and the CRC-32C of every array; written last
=====================  ================================================================================
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarr.storage

from pipeline.corpus import format as fmt
from pipeline.destination import new_directory
from pipeline.errors import StoreError
from pipeline.model.error_bars import ErrorBars
from pipeline.model.labeler import MomentLabeler
from pipeline.passes.pairs import Statistics

FORMAT = "threepass-model"
VERSION = 1
_ARRAYS = {
    "word_topics": np.float32,
    "label_topics": np.float32,
    "topic_weights": np.float64,
    "whitening": np.float32,
    "eigenvalues": np.float64,
    "tensor_eigenvalues": np.float64,
    "label_counts": np.int64,
}
_NUMBERS = ("tensor_residual", "n_passes", "fit_stats")


def save_model(model: MomentLabeler, path: Path, overwrite: bool) -> None:
    with new_directory(path, overwrite=overwrite, is_ours=lambda p: fmt.has_mark(p, FORMAT)) as partial:
        root = zarr.create_group(zarr.storage.LocalStore(partial), zarr_format=3)
        arrays = {name: np.asarray(getattr(model, f"{name}_"), dtype) for name, dtype in _ARRAYS.items()}
        arrays |= {"word_errors": model.error_bars_.words, "label_errors": model.error_bars_.labels}
        for name, array in arrays.items():
            fmt.write_array(root, name, array)
        fmt.write_names(root, "labels", model.label_names_)
        root.attrs[fmt.ATTRIBUTE] = {
            "format": FORMAT,
            "version": VERSION,
            "parameters": {name: _plain(value) for name, value in model.get_params().items()},
            "crc32c": {name: fmt.crc32c(array) for name, array in arrays.items()},
            "statistics": asdict(model.statistics_),
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
        model = MomentLabeler(**mark["parameters"])
        model.statistics_ = Statistics(**mark["statistics"])
        for name in _NUMBERS:
            setattr(model, f"{name}_", mark[name])
        for name, dtype in _ARRAYS.items():
            setattr(model, f"{name}_", _read(root, name, dtype, mark["crc32c"][name]))
        words, labels = (
            _read(root, name, np.float64, mark["crc32c"][name]) for name in ("word_errors", "label_errors")
        )
        model.error_bars_ = ErrorBars(words, labels)
        model.label_names_ = fmt.read_names(root, "labels") or []
        D, K = model.word_topics_.shape
        shapes_fit = (
            model.whitening_.shape == (D, K)
            and model.label_topics_.shape == (len(model.label_counts_), K)
            and len(model.label_names_) == len(model.label_counts_)
            and len(model.topic_weights_) == len(model.tensor_eigenvalues_) == len(model.eigenvalues_) == K
        )
    except (KeyError, TypeError, ValueError, StoreError) as error:
        raise _damaged(path, repr(error)) from error
    if not shapes_fit:
        raise _damaged(path, "its arrays do not fit each other")
    model.n_features_in_ = D
    return model


def _read(root: zarr.Group, name: str, dtype: Any, crc: int) -> Any:
    array = fmt.read_array(root, name)
    if array.dtype != dtype or fmt.crc32c(array) != crc:
        raise ValueError(f"'{name}' is not the array of type {np.dtype(dtype)} that was saved")
    return array


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: numpy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _damaged(path: str | Path, how: str) -> StoreError:
    return StoreError(f"The model at {path} is damaged: {how}. Fit it again.")
