"""threepass: the right labels on documents, from three reads of a corpus that does not fit in memory."""

from pipeline import _startup

_startup.begin()  # before the imports that take seconds

from pipeline.corpus.describe import describe
from pipeline.corpus.store import Corpus
from pipeline.corpus.text_info import Tokenizer
from pipeline.demo import run_demo
from pipeline.errors import InputError, StoreError, ThreepassError
from pipeline.ingest.fetch import Fetched, fetch_dataset
from pipeline.ingest.manifest import Manifest, find_manifest, list_datasets
from pipeline.ingest.matrices import ingest_matrices
from pipeline.ingest.synthetic import SHAPES, Planted, ingest_planted, ingest_shape
from pipeline.ingest.text import ingest_text
from pipeline.ingest.vocabulary import Limits
from pipeline.ingest.xmc import ingest_xmc
from pipeline.model.labeler import MomentLabeler
from pipeline.predict import predict_to_file
from pipeline.predict_text import predict_texts
from pipeline.report.page import write_report
from pipeline.verify import check

__all__ = [
    "SHAPES",
    "Corpus",
    "Fetched",
    "InputError",
    "Limits",
    "Manifest",
    "MomentLabeler",
    "Planted",
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


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version  # asked for seldom

    try:
        return version("threepass")
    except PackageNotFoundError:  # run from its sources
        return "0+unknown"
