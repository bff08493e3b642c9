"""How tests see that a damaged corpus is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from threepass import Corpus, StoreError
from threepass.corpus.describe import describe


def use(path: Path) -> tuple[Any, ...]:
    """Everything that a corpus is good for."""
    corpus = Corpus.open(path)
    dense = [side.toarray().tolist() for side in corpus.to_scipy()]
    counts = corpus.term_ids.tolist(), corpus.term_counts.tolist(), corpus.label_counts.tolist()
    said = describe(corpus)
    del said["bytes_on_disk"], said["bits_per_nonzero"]
    return dense, counts, corpus.terms, corpus.labels, said


def refused(path: Path, why: str) -> None:
    with pytest.raises(StoreError, match=why) as error:
        use(path)
    assert "\n" not in str(error.value)
