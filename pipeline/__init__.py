"""threepass: the right labels on documents, from three reads of a corpus that does not fit in memory.

Public names are imported when they are first asked for, so that `import threepass` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .corpus.describe import describe
    from .corpus.store import Corpus
    from .errors import InputError, StoreError, ThreepassError
    from .ingest.fetch import Fetched, fetch_dataset
    from .ingest.manifest import Manifest, find_manifest, list_datasets
    from .ingest.matrices import ingest_matrices
    from .ingest.synthetic import SHAPES, Planted, ingest_planted, ingest_shape
    from .ingest.text import ingest_text
    from .ingest.vocabulary import Limits
    from .ingest.xmc import ingest_xmc
    from .model.labeler import MomentLabeler
    from .model.predictions import predict_to_file
    from .model.predictor import Predictor
    from .model.text_predictions import predict_texts
    from .model.verify import check
    from .report.demo import run_demo
    from .report.page import write_report
    from .text.info import Tokenizer

_HOMES = {
    "SHAPES": "ingest.synthetic",
    "Corpus": "corpus.store",
    "Fetched": "ingest.fetch",
    "InputError": "errors",
    "Limits": "ingest.vocabulary",
    "Manifest": "ingest.manifest",
    "MomentLabeler": "model.labeler",
    "Planted": "ingest.synthetic",
    "Predictor": "model.predictor",
    "StoreError": "errors",
    "ThreepassError": "errors",
    "Tokenizer": "text.info",
    "check": "model.verify",
    "describe": "corpus.describe",
    "fetch_dataset": "ingest.fetch",
    "find_manifest": "ingest.manifest",
    "ingest_matrices": "ingest.matrices",
    "ingest_planted": "ingest.synthetic",
    "ingest_shape": "ingest.synthetic",
    "ingest_text": "ingest.text",
    "ingest_xmc": "ingest.xmc",
    "list_datasets": "ingest.manifest",
    "predict_texts": "model.text_predictions",
    "predict_to_file": "model.predictions",
    "run_demo": "report.demo",
    "write_report": "report.page",
}

__all__ = [
    "SHAPES",
    "Corpus",
    "Fetched",
    "InputError",
    "Limits",
    "Manifest",
    "MomentLabeler",
    "Planted",
    "Predictor",
    "StoreError",
    "ThreepassError",
    "Tokenizer",
    "check",
    "describe",
    "fetch_dataset",
    "find_manifest",
    "ingest_matrices",
    "ingest_planted",
    "ingest_shape",
    "ingest_text",
    "ingest_xmc",
    "list_datasets",
    "predict_texts",
    "predict_to_file",
    "run_demo",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # asked for seldom

    try:
        return version("threepass")
    except PackageNotFoundError:  # run from its sources
        return "0+unknown"
