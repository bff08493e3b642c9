"""The data sets that benchmarks run on: XMC text files in a folder, one sub-folder a data set.

The folder is `--data`, or the environment's THREEPASS_DATA. A sub-folder holds `train.txt` and `test.txt`,
and may hold `features.txt` and `labels.txt`, each plain or compressed.
"""

from __future__ import annotations

import os
from pathlib import Path

from pipeline import Corpus, InputError, ingest_xmc


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


def _find(folder: Path, stem: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{stem}.txt*"))), None)
