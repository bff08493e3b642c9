"""Texts as a model sees them: the words of its training corpus, found in the same way."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..corpus.encode import encode, terms_in_source_order
from ..corpus.rows import SparseRows
from ..corpus.store import Corpus
from ..errors import InputError
from ..text.hashing import hashed_columns
from ..text.info import TextInfo
from ..text.terms import TermTable
from ..text.words import DocumentWords, Texts, WordFinder, as_texts, strings_of
from ..warn import warn

_LOOKED_AT = 100
"""Rows of a table in memory that tell whether there are texts in it."""


def as_text_list(X: Any) -> list[str] | None:
    """The texts that X is: one, or a sequence of them; None for anything else.

    Raises
    ------
    InputError
        It is a table with texts in it, or a sequence of which some are none.
    """
    if isinstance(X, str):
        return [X]
    if _is_table(X):
        raise InputError(
            f"Texts are wanted as one column. Found a table with {', '.join(map(str, X.columns[:10]))}. "
            "Pass the column that holds them, as in df['text']."
        )
    if not _is_sequence(X) or not any(isinstance(text, str) for text in X):
        return None
    for i, text in enumerate(X):
        if not isinstance(text, str):
            raise InputError(
                f"Not all of the {len(X):,} texts are texts. Found {text!r:.60} at {i}. "
                "Put a text in its place, as with df['text'].fillna('')."
            )
    return [str(text) for text in X]


def tag_lists(Y: Any, n_texts: int) -> list[list[str]]:
    """Names of labels for each text."""
    rows = list(Y) if not hasattr(Y, "tolist") else Y.tolist()
    if len(rows) != n_texts:
        raise InputError(
            f"X and Y must have as many rows as each other. Found {n_texts:,} texts and {len(rows):,} labels."
        )
    for i, own in enumerate(rows):
        if isinstance(own, str) or not isinstance(own, list | tuple | set | frozenset):
            raise InputError(
                f"Texts have a list of labels each. Found {own!r:.60} for text {i}. "
                "Pass a list of names for each text, as in [['weather', 'news'], ['sport'], []]."
            )
        if not all(isinstance(name, str) for name in own):
            raise InputError(f"Labels of texts are names. Found {own!r:.60} for text {i}. Pass texts.")
    return [sorted(own) if isinstance(own, set | frozenset) else list(own) for own in rows]


def has_tag_lists(Y: Any) -> bool:
    """Whether Y is a sequence that has lists of names for its elements."""
    if not isinstance(Y, list | tuple) and (
        getattr(getattr(Y, "dtype", None), "kind", "") != "O" or np.ndim(Y) != 1
    ):
        return False
    kinds = list, tuple, set, frozenset
    return all(isinstance(own, kinds) and all(isinstance(name, str) for name in own) for own in Y)


def tag_rows(Y: Any, n_texts: int, names: Sequence[str]) -> SparseRows:
    """(texts, labels): lists of names as rows. Names that a model lacks are left out, with a warning."""
    number_of = {name: i for i, name in enumerate(names)}
    lists = tag_lists(Y, n_texts)
    unknown = {name for own in lists for name in own if name not in number_of}
    if unknown:
        warn(
            f"Labels that the model does not know are left out. Found {len(unknown):,}, such as "
            f"{sorted(unknown)[0]!r:.60}. Scores are of the labels that it knows."
        )
    rows = [sorted({number_of[name] for name in own if name in number_of}) for own in lists]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return SparseRows(indptr, np.array([i for row in rows for i in row], np.int32), None, len(names))


def _is_sequence(X: Any) -> bool:
    if isinstance(X, np.ndarray) and (X.dtype.kind not in "OU" or X.ndim != 1):
        return False
    return isinstance(X, list | tuple | np.ndarray) or (hasattr(X, "iloc") and np.ndim(X) == 1)


def _is_table(X: Any) -> bool:
    """Whether X is a table with texts in it."""
    return (
        hasattr(X, "iloc")
        and np.ndim(X) == 2
        and any(isinstance(value, str) for i in range(X.shape[1]) for value in X.iloc[:_LOOKED_AT, i])
    )


def check_like(corpus: Corpus, info: TextInfo | None, terms: list[str], labels: list[str] | None) -> None:
    """Refuse a corpus of texts whose columns are not those of a model that was fitted to texts.

    Parameters
    ----------
    labels
        The model's, where they matter.
    """
    if info is None or corpus.info.text is None:
        return
    same = corpus.info.text.tokenizer == info.tokenizer
    if same and info.tokenizer.hash_bits is None:
        same = corpus.n_terms == len(terms) and terms_in_source_order(corpus) == terms
    if not (same and labels in (None, corpus.labels)):
        raise InputError(
            f"The corpus has other terms or labels than the model. Found {corpus!r}. Ingest it again with "
            "like (--like) and the corpus that the model was fitted to."
        )


def check_takes_texts(info: TextInfo | None) -> None:
    """Refuse texts where a model does not know how they become words."""
    if info is None:
        raise InputError(
            "The model does not know how texts become words: it was not fitted to texts. Found texts to "
            "label. Ingest texts (ingest_text) and fit again, or give rows of words."
        )


class TextEncoder:
    """From texts to rows in a model's columns; safe to use from many threads."""

    def __init__(self, info: TextInfo, terms: list[str]) -> None:
        self._tokenizer = info.tokenizer
        self._n_terms = len(terms)
        self._finder = WordFinder(info.tokenizer)
        self._numbers = {} if self._hashed else {name: i for i, name in enumerate(terms)}
        self._table = TermTable() if self._hashed else TermTable.of_names(terms)
        self._readers: deque[TermTable] = deque()

    @classmethod
    def of(cls, info: TextInfo | None, terms: list[str]) -> TextEncoder:
        """For a model with these terms.

        Raises
        ------
        InputError
            It was not fitted to texts.
        """
        check_takes_texts(info)
        assert info is not None
        return cls(info, terms)

    @property
    def _hashed(self) -> bool:
        return self._tokenizer.hash_bits is not None

    def text_rows(self, texts: Sequence[str]) -> SparseRows:
        """(texts, terms): the words of some texts that the model knows."""
        return self.rows([as_texts(texts)])

    def find(self, columns: Sequence[Texts]) -> DocumentWords:
        """The words of documents whose texts are the rows of some columns."""
        return self._finder.find(columns)

    def rows(self, columns: Sequence[Texts]) -> SparseRows:
        """(documents, terms): the words of documents that the model knows."""
        return self.encode(self.find(columns))

    def encode(self, found: DocumentWords) -> SparseRows:
        """(documents, terms): those of the words that the model knows."""
        if self._hashed:
            return encode(found, TermTable(), self._tokenizer, self._n_terms)
        try:
            table = self._readers.pop()
        except IndexError:
            table = self._table.reader()
        rows = encode(found, table, self._tokenizer, self._n_terms)
        self._readers.append(table)
        return rows

    def one(self, text: str) -> tuple[SparseRows, list[str], dict[int, str]]:
        """One text's row, its words that are not known, and, with hashing, the words of each column."""
        found = self.find([as_texts([text])])
        (words,) = strings_of(found, self._tokenizer.bigrams and self._hashed)
        words = list(dict.fromkeys(words))
        names: dict[int, str] = {}
        if self._tokenizer.hash_bits is not None and words:
            for name, column in zip(
                words, hashed_columns(words, self._tokenizer.hash_bits).tolist(), strict=True
            ):
                names[column] = f"{names[column]} / {name}" if column in names else name
        unknown = [] if self._hashed else [word for word in words if word not in self._numbers]
        return self.encode(found), unknown, names
