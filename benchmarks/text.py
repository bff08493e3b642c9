"""How fast texts become a corpus: what `python -m benchmarks.ingest --text` measures."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.measure import machine, run_measured

INGEST = """
import json, sys, time
from threepass import Tokenizer, ingest_text
started = time.perf_counter()
tokenizer = Tokenizer(**json.loads(sys.argv[-1]))
corpus = ingest_text(sys.argv[1:-2], sys.argv[-2], tokenizer=tokenizer, overwrite=True)
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "documents": corpus.n_docs, "terms": corpus.n_terms}))
"""
N_WORDS, N_LABELS = 300_000, 2_000
WORDS_A_DOCUMENT = 120
PEER_MB = 20


def measure(folder: Path, megabytes: int, real: list[Path]) -> dict[str, Any]:
    """Synthetic texts of a Zipf vocabulary in every format, then files of the user's own."""
    source = folder / "drawn.jsonl"
    write_texts(source, megabytes)
    sources = {"jsonl": source, **other_formats(source, folder)}
    size = {name: path.stat().st_size / 1e6 for name, path in sources.items()}
    run_measured(INGEST, source, folder / "first.zarr", "{}")  # compiles, unless an earlier run has
    rows: dict[str, Any] = {}
    for name, path in sources.items():
        rows[name] = ingested(folder, [path], size["jsonl"], {})
    rows["jsonl, bigrams"] = ingested(folder, [source], size["jsonl"], {"bigrams": True})
    rows["jsonl, hashed"] = ingested(folder, [source], size["jsonl"], {"hash_bits": 20})
    rows["jsonl, pattern"] = ingested(folder, [source], size["jsonl"], {"pattern": "[\\p{L}\\p{N}]{2,}"})
    rows["jsonl, 3 times"] = ingested(folder, [source] * 3, 3 * size["jsonl"], {})
    for path in real:
        rows[path.name] = ingested(folder, [path], path.stat().st_size / 1e6, {})
    peer = sklearn_mb_per_s(source)
    return {
        "machine": machine(),
        "text_mb": round(size["jsonl"], 1),
        "ingest": rows,
        "sklearn_count_vectorizer_mb_per_s": round(peer, 1),
        "times_faster_than_sklearn": round(rows["jsonl"]["mb_per_s"] / peer, 1),
    }


def ingested(folder: Path, paths: list[Path], megabytes: float, tokenizer: dict[str, Any]) -> dict[str, Any]:
    run = run_measured(INGEST, *paths, folder / "texts.zarr", json.dumps(tokenizer))
    return {
        "mb_per_s": round(megabytes / run["seconds"], 1),
        "seconds": round(run["seconds"], 2),
        "peak_mb": run["peak_mb"],
        "documents": run["documents"],
        "terms": run["terms"],
    }


def write_texts(path: Path, megabytes: int, seed: int = 0) -> None:
    """JSON lines with words drawn by Zipf's law, a tenth of them with letters beyond ASCII."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    accented = str.maketrans("aeou", "äéöü")
    words = [
        "".join(letters[np.minimum(rng.geometric(0.12, n) - 1, 25)]) for n in rng.integers(2, 12, N_WORDS)
    ]
    words = [word.translate(accented) if i % 10 == 9 else word for i, word in enumerate(words)]
    weights = 1 / (np.arange(N_WORDS) + 2.7)
    bounds = np.cumsum(weights / weights.sum())
    written = 0
    with path.open("w") as file:
        while written < megabytes * 1e6:
            drawn = np.minimum(np.searchsorted(bounds, rng.random(200 * WORDS_A_DOCUMENT)), N_WORDS - 1)
            for row in drawn.reshape(200, WORDS_A_DOCUMENT).tolist():
                text = " ".join(words[i] for i in row)
                labels = [f"label {i}" for i in rng.integers(0, N_LABELS, 3).tolist()]
                line = {"id": written, "title": text[:40].title(), "body": text + ".", "tags": labels}
                written += file.write(json.dumps(line, ensure_ascii=False) + "\n")


def other_formats(source: Path, folder: Path) -> dict[str, Path]:
    """The same rows compressed, as CSV and as Parquet."""
    paths = {
        name: folder / f"drawn.{suffix}"
        for name, suffix in (("jsonl.gz", "jsonl.gz"), ("csv", "csv"), ("parquet", "parquet"))
    }
    with source.open("rb") as plain, gzip.open(paths["jsonl.gz"], "wb", compresslevel=1) as packed:
        while chunk := plain.read(2**24):
            packed.write(chunk)
    with source.open() as file:
        rows = [json.loads(line) for line in file]
    table = pa.Table.from_pylist(rows)
    pa.parquet.write_table(table, paths["parquet"], row_group_size=20_000)
    tags = pa.array([";".join(row["tags"]) for row in rows])
    pa.csv.write_csv(table.set_column(table.schema.get_field_index("tags"), "tags", tags), paths["csv"])
    return paths


def sklearn_mb_per_s(source: Path) -> float:
    """How fast scikit-learn counts the same words, on one core, for that is all it uses."""
    with source.open("rb") as file:
        lines = file.read(PEER_MB * 1_000_000).splitlines()[:-1]
    started = time.perf_counter()
    rows = [json.loads(line) for line in lines]
    CountVectorizer(min_df=2).fit_transform(f"{row['title']} {row['body']}" for row in rows)
    return sum(map(len, lines)) / 1e6 / (time.perf_counter() - started)
