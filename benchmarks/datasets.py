"""The data sets that benchmarks run on: XMC text files in a folder, one sub-folder a data set.

The folder is `--data`, or the environment's THREEPASS_DATA. A sub-folder holds `train.txt` and `test.txt`,
and may hold `features.txt` and `labels.txt`, each plain or compressed.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.methods.split import Split
from threepass import SHAPES, Corpus, InputError, ingest_shape, ingest_xmc

TEST_SHARE = 0.02
"""Of a planted corpus, for testing: these are large."""


def data_folder(given: Path | None) -> Path:
    folder = given or (Path(os.environ["THREEPASS_DATA"]) if "THREEPASS_DATA" in os.environ else None)
    if folder is None or not folder.is_dir():
        raise InputError("No folder with data sets. Pass --data FOLDER, or set THREEPASS_DATA.")
    return folder


def ingest_splits(name: str, data: Path, work: Path) -> tuple[Corpus, Corpus]:
    """Ingest the training and test files of a data set into `work`."""
    names = {kind: _find(data / name, kind) for kind in ("features", "labels")}
    corpora = []
    for split in ("train", "test"):
        source = _find(data / name, split)
        if source is None:
            known = sorted(path.parent.name for path in data.glob("*/train.txt*"))
            raise InputError(f"There is no data set '{name}' in {data}. Found: {', '.join(known)}.")
        corpora.append(
            ingest_xmc(
                source,
                work / f"{name}-{split}.zarr",
                feature_names=names["features"],
                label_names=names["labels"],
                overwrite=True,
            )
        )
    return corpora[0], corpora[1]


def prepare_split(dataset: str, data: Path | None, work: Path, test_docs: int | None = None) -> Split:
    """Training and test documents in `work`: of a data set, or drawn, as `amazoncat:0.5` says.

    Parameters
    ----------
    dataset
        The name of a folder below `data`, or SHAPE:SCALE: a shape of the paper's, a share of its documents.
    """
    shape, colon, scale = dataset.partition(":")
    if not colon:
        ingest_splits(dataset, data_folder(data), work)
        paths = (str(work / f"{dataset}-{split}.zarr") for split in ("train", "test"))
        return Split(*paths, test_docs=test_docs)
    if shape not in SHAPES or not _is_share(scale):
        raise InputError(
            f"A planted corpus is SHAPE:SCALE. Found {dataset}. Shapes are {', '.join(SHAPES)}, the scale is "
            "a share of the documents, as in amazoncat:0.5."
        )
    ingest_shape(shape, work / f"{shape}.zarr", scale=float(scale), overwrite=True)
    return Split(str(work / f"{shape}.zarr"), None, TEST_SHARE, test_docs)


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


def _find(folder: Path, stem: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{stem}.txt*"))), None)
