"""Description of a corpus: its numbers as a dictionary, and as text for a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..display import how_many
from ..storage.arrays import stored_bytes
from ..storage.marks import ATTRIBUTE, written_by
from ..types import Array
from .format import Side, block_path, read_lengths, refusing
from .store import Corpus

_BAR = 40


def describe(corpus: Corpus) -> dict[str, Any]:
    """Counts, sparsity, size on disk, histograms and a sample document; ready for JSON.

    Reads the `indptr` of every block, and one whole block for the sample.
    """
    words, labels = row_lengths(corpus, "X"), row_lengths(corpus, "Y")
    nnz = int(words.sum())
    bytes_x = _stored_bytes(corpus, "X")
    return {
        "documents": corpus.n_docs,
        "terms": corpus.n_terms,
        "labels": corpus.n_labels,
        "nonzeros": nnz,
        "density": nnz / max(1, corpus.n_docs * corpus.n_terms),
        "values": corpus.info.values,
        "blocks": corpus.n_blocks,
        "bytes_on_disk": bytes_x + _stored_bytes(corpus, "Y"),
        "bits_per_nonzero": 8 * bytes_x / max(1, nnz),
        "words_per_document": _summary(words),
        "labels_per_document": _summary(labels),
        "documents_per_label": _summary(corpus.label_counts),
        "terms_never_seen": int((corpus.term_counts == 0).sum()),
        "sample": _sample(corpus, words, labels),
        "source": corpus.info.source,
        "fingerprint": corpus.fingerprint,
        "written_by": written_by(corpus.root.attrs.asdict()[ATTRIBUTE]),
    }


def in_brief(description: dict[str, Any]) -> str:
    """Size of a corpus, in a few words."""
    n_docs, *sizes = (how_many(description[f"{noun}s"], noun) for noun in ("document", "term", "label"))
    return f"{n_docs} x {', '.join(sizes)}"


def render(description: dict[str, Any]) -> str:
    """Text of a description, for a terminal."""
    d = description
    bits = f"words take {d['bits_per_nonzero']:.1f} bits a nonzero"
    lines = [
        in_brief(d),
        f"{how_many(d['nonzeros'], 'nonzero')} (density {d['density']:.2e}), values: {d['values']}",
        f"{d['bytes_on_disk'] / 1e6:,.1f} MB on disk in {how_many(d['blocks'], 'block')}; {bits}",
        f"source: {', '.join(f'{key} {_plain(value)}' for key, value in d['source'].items())}",
        f"fingerprint: {d['fingerprint']}",
        *([f"written by {d['written_by']}"] if d["written_by"] else []),
    ]
    for key, title, zero in (
        ("words_per_document", "words in a document", "documents without words"),
        ("labels_per_document", "labels on a document", "documents without labels"),
        ("documents_per_label", "documents with a label", "labels never seen"),
    ):
        s = d[key]
        if not s["histogram"]:
            continue
        numbers = f"mean {s['mean']:.2f}, median {s['median']:g}, largest {s['max']:,}"
        lines += ["", f"{title}: {numbers}; {zero}: {s['zeros']:,}"]
        most = max(count for _, count in s["histogram"])
        width = max(len(span) for span, _ in s["histogram"])
        for span, count in s["histogram"]:
            lines.append(f"  {span:>{width}} {'#' * round(_BAR * count / most):<{_BAR}} {count:,}")
    if d["sample"]:
        sample = d["sample"]
        words = ", ".join(name if count == 1 else f"{name} ({count:g})" for name, count in sample["words"])
        more = f" and {sample['more_words']:,} more" if sample["more_words"] else ""
        lines += ["", f"document {sample['number']:,}:", f"  labels: {', '.join(sample['labels'])}"]
        lines += [f"  words: {words}{more}"]
    return "\n".join(lines)


def _plain(value: object) -> str:
    if isinstance(value, list):
        shown = ", ".join(map(str, value[:3]))
        return shown + (f" and {len(value) - 3} more" if len(value) > 3 else "")
    return str(value)


def row_lengths(corpus: Corpus, side: Side) -> Array:
    """(n_docs,) int64: nonzeros in each row."""
    lengths = [read_lengths(corpus.root, corpus.info, side, number) for number in range(corpus.n_blocks)]
    return np.concatenate(lengths)[corpus.doc_ids] if lengths else np.zeros(0, np.int64)


def _stored_bytes(corpus: Corpus, side: Side) -> int:
    with refusing():
        return sum(
            stored_bytes(corpus.root, f"{block_path(side, number)}/{name}")
            for number in range(corpus.n_blocks)
            for name in ("indptr", "indices", "data")
        )


def _summary(counts: Array) -> dict[str, Any]:
    if not len(counts):
        return {"mean": 0.0, "median": 0.0, "max": 0, "zeros": 0, "histogram": []}
    return {
        "mean": float(counts.mean()),
        "median": float(np.median(counts)),
        "max": int(counts.max()),
        "zeros": int((counts == 0).sum()),
        "histogram": _histogram(counts),
    }


def _histogram(counts: Array) -> list[tuple[str, int]]:
    """Number of counts in each of 0, 1, 2-3, 4-7, 8-15, ..."""
    filled = np.bincount(np.frexp(counts.astype(np.float64))[1])  # frexp: the number of bits of a count
    spans = []
    for bit, count in enumerate(filled.tolist()):
        low, high = (0, 0) if bit == 0 else (2 ** (bit - 1), 2**bit - 1)
        spans.append((f"{low:,}" if low == high else f"{low:,}-{high:,}", count))
    first = next(i for i, (_, count) in enumerate(spans) if count)
    return spans[first:]


def _sample(corpus: Corpus, words: Array, labels: Array) -> dict[str, Any] | None:
    """The first document that has both words and labels."""
    both = np.flatnonzero((words > 0) & (labels > 0))
    if not len(both):
        return None
    row = int(both[0])
    number = int(np.searchsorted(np.cumsum(corpus.block_rows), row, side="right"))
    block = corpus.block(number)
    x, y = (side.slice(row - block.first_row, row - block.first_row + 1) for side in (block.X, block.Y))
    # the rarest words say most about a document
    shown = x.indices[::-1][:12].tolist()
    values = x.values_as(np.float64)[::-1][:12].tolist()
    return {
        "number": int(corpus.doc_ids[row]),
        "labels": [corpus.labels[i] for i in y.indices[:20].tolist()],
        "words": [(corpus.terms[i], value) for i, value in zip(shown, values, strict=True)],
        "more_words": max(0, x.nnz - 12),
    }
