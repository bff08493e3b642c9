"""Is a corpus or a model whole? Everything in it is read, checked, and counted again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import scipy.sparse
import zarr

from ..corpus import format as fmt
from ..corpus.origins import StoredOrigins
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..display import how_many
from ..errors import StoreError, ThreepassError
from ..ingest.kernels import count_columns
from ..progress import Progress, begin
from ..storage.arrays import crc32c, read_array, read_attributes
from ..storage.guard import ITEM_BYTES, DamageError
from ..storage.marks import kind_of
from . import files as persist

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Report:
    """Findings of a check."""

    path: str
    kind: str
    """`corpus` or `model`."""
    counts: dict[str, int]
    """Contents, as the store tells them."""
    damage: list[str] = field(default_factory=list)
    """Everything that is not as it was written: where, and how."""

    @property
    def is_whole(self) -> bool:
        return not self.damage

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        said = {"path": self.path, "kind": self.kind, "whole": self.is_whole}
        return {**said, **self.counts, "damage": self.damage}

    def __str__(self) -> str:
        held = ", ".join(how_many(count, what.removesuffix("s")) for what, count in self.counts.items())
        if self.is_whole:
            return f"{self.path}: a whole {self.kind}: {held}; everything matches its checksums"
        remedy = "Ingest the source again with --overwrite." if self.kind == "corpus" else "Fit it again."
        found = "1 thing is" if len(self.damage) == 1 else f"{len(self.damage):,} things are"
        first = f"{self.path}: a damaged {self.kind}: {held}; {found} not as written. {remedy}"
        return "\n".join([first, *(f"  {line}" for line in self.damage)])

    def attempt(
        self, read: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result | None:
        """Call `read`, note any damage that it finds, and return its result or None."""
        try:
            return read(*args, **kwargs)
        except DamageError as damage:
            self.note(str(damage))
        except ThreepassError as error:
            self.note(str(error.__cause__ if isinstance(error.__cause__, DamageError) else error))
        return None

    def note(self, damage: str) -> None:
        if damage not in self.damage:
            self.damage.append(damage)


def check(path: str | Path, *, progress: Progress | None = None) -> Report:
    """Read all of a corpus or a model and compare it with its checksums and with itself.

    Of a corpus, every block is read, terms and labels are counted again, and the fingerprint is computed
    again; of a model, every array is read, and it has to label a document without words and one with one.

    Parameters
    ----------
    progress
        See `threepass.progress.Progress`; `check` is counted in blocks or arrays.

    Raises
    ------
    StoreError
        There is no corpus or model of a known version, or what it says of itself is damaged.

    Notes
    -----
    Cost: for a corpus the memory of a block and of the counts; for a model the memory that it takes when it
    is loaded.

    Examples
    --------
    >>> import tempfile
    >>> from threepass import ingest_shape
    >>> folder = tempfile.mkdtemp()
    >>> corpus = ingest_shape("bibtex", f"{folder}/bibtex.zarr", scale=0.1)
    >>> check(f"{folder}/bibtex.zarr").is_whole
    True
    """
    kind = kind_of(path)
    if kind == persist.FORMAT:
        return _check_model(path, progress)
    if kind not in (fmt.FORMAT, None):
        raise StoreError(
            f"{path} is neither a corpus nor a model: it says that it is '{kind[:50]}'. "
            "Give the path of a corpus or a model."
        )
    return _check_corpus(path, progress)


def _check_corpus(path: str | Path, progress: Progress | None) -> Report:
    root, info = fmt.read_info(path)
    counts = {
        "blocks": len(info.blocks),
        "documents": info.n_docs,
        "terms": info.n_terms,
        "labels": info.n_labels,
        "nonzeros": info.nnz("X"),
    }
    report = Report(str(path), "corpus", counts)
    report.attempt(fmt.read_term_ids, root, info)
    for side in fmt.SIDES:
        _check_side(report, root, info, side, progress)
        report.attempt(fmt.read_names, root, info, side)
    for name, crc in info.crc32c.items():
        if name.startswith("truth/"):  # of planted corpora
            report.attempt(read_array, root, name, None, *ITEM_BYTES, crc=crc)
    origins = report.attempt(StoredOrigins, root, info)
    if origins is not None:
        report.attempt(origins.of, np.arange(info.n_docs))
    begin(progress, "fingerprint")
    found = report.attempt(fmt.fingerprint, root, info)
    if found not in (info.fingerprint, None):
        report.note(f"the fingerprint is {info.fingerprint}, and that of what is stored is {found}")
    if report.is_whole:
        report.attempt(Corpus.open, path)
    return report


def _check_side(
    report: Report, root: zarr.Group, info: fmt.CorpusInfo, side: fmt.Side, progress: Progress | None
) -> None:
    """Every block of X or of Y, and the counts of their columns."""
    stored = report.attempt(fmt.read_counts, root, info, side)
    counted = None if stored is None else np.zeros_like(stored)
    n_blocks = len(info.blocks)
    for number in range(n_blocks):
        rows = report.attempt(fmt.read_rows, root, info, side, number)
        if rows is not None:
            report.attempt(_check_rest, root, info, side, number, rows)
        if rows is None:
            counted = None  # what is missing from the counts would be told twice
        elif counted is not None:
            count_columns(rows.indices, counted)
        if progress is not None:
            progress("check", number + 1 + (n_blocks if side == "Y" else 0), 2 * n_blocks)
    if stored is not None and counted is not None and (different := np.flatnonzero(stored != counted)).size:
        name = "term_counts" if side == "X" else "label_counts"
        report.note(
            f"{name}: {different.size:,} of them are not what the blocks have; the first is {different[0]}"
        )


def _check_rest(
    root: zarr.Group, info: fmt.CorpusInfo, side: fmt.Side, number: int, rows: SparseRows
) -> None:
    """Check what `read_rows` does not need but `describe` or other tools do."""
    path = fmt.block_path(side, number)
    if crc32c(rows.indptr) != info.crc32c.get(f"{path}/indptr", crc32c(rows.indptr)):
        raise DamageError(f"{path}/indptr", "its checksum does not match")
    if rows.values is None:
        ones = read_array(root, f"{path}/data", (rows.nnz,), np.uint8)
        if not (ones == 1).all():
            raise DamageError(f"{path}/data", "its values are not all 1")
    said = read_attributes(root, path)
    if said.get("encoding-type") != "csr_matrix" or said.get("shape") != list(rows.shape):
        raise DamageError(
            path, f"its attributes are not those of a csr_matrix of {rows.n_rows} x {rows.n_columns}"
        )


def _check_model(path: str | Path, progress: Progress | None) -> Report:
    root, mark = persist.open_model(path)
    checksums = mark.get("crc32c")
    checksums = checksums if isinstance(checksums, dict) else {}
    counts = {"arrays": len(checksums)}
    report = Report(str(path), "model", counts)
    for done, (name, crc) in enumerate(checksums.items(), start=1):
        report.attempt(read_array, root, name, None, *ITEM_BYTES, crc=crc)
        if progress is not None:
            progress("check", done, len(checksums))
    if report.is_whole:
        begin(progress, "use")
        report.attempt(_use, path, counts)
    return report


def _use(path: str | Path, counts: dict[str, int]) -> None:
    """Load a model and let it label a document without words and one with one word."""
    model = persist.load_predictor(path)
    D, K = model.moments.W.shape
    L = model.n_labels
    counts.update({"terms": D, "labels": L, "topics": K})
    documents = scipy.sparse.csr_array(([1.0], ([1], [0])), shape=(2, D))
    labels, scores = model.predict_topk(documents, k=1)
    if not (((labels >= 0) & (labels < L)).all() and np.isfinite(scores).all()):
        raise DamageError(
            "the model", f"it gives documents the labels {labels.ravel()}, scores {scores.ravel()}"
        )
