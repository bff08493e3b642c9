"""Training and test documents, as every process of a comparison finds them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from threepass import Corpus


@dataclass(frozen=True)
class Split:
    """Where the documents are.

    Parameters
    ----------
    train
        A corpus.
    test
        Another one; None to set documents of the first one aside.
    share
        Of the documents that are set aside, by hash.
    test_docs
        Test documents to look at, the first ones; None for all.
    """

    train: str
    test: str | None = None
    share: float = 0.0
    test_docs: int | None = None

    def open(self) -> tuple[Corpus, Corpus]:
        """Training and test documents."""
        train = Corpus.open(self.train)
        train, test = train.split(self.share) if self.test is None else (train, Corpus.open(self.test))
        return train, test if self.test_docs is None else test.head(self.test_docs)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Split:
        return cls(**json.loads(path.read_text()))
