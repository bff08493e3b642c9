"""Neighbours and their votes by comparing every document with every other: oracles of `parts`."""

from __future__ import annotations

import math

import numpy as np


def postings(X, most):
    """For each word [(document, value)] of the documents where it weighs most, in order; ties by number."""
    out = []
    for column in X.T:
        docs = sorted(np.flatnonzero(column), key=lambda d: (-column[d], d))[:most]
        out.append([(int(d), column[d]) for d in sorted(docs)])
    return out


def neighbours(Z, X, count, first=-1):
    """(n, count) documents of X and products, best first, ties by number; -1 and 0 where none shares a word.

    Row d of Z is document `first + d` of X where `first` is not below 0, and no neighbour of itself.
    """
    docs, products = np.full((len(Z), count), -1), np.zeros((len(Z), count))
    for d, z in enumerate(Z):
        found = [(math.fsum(z * x), number) for number, x in enumerate(X)]
        if first >= 0:
            del found[first + d]
        found = sorted((-product, number) for product, number in found if product > 0)[:count]
        for rank, (product, number) in enumerate(found):
            docs[d, rank], products[d, rank] = number, -product
    return docs, products


def votes(docs, similarities, Y, power, weight):
    """(n, L): each neighbour gives its share of sum similarity^power to all of its labels."""
    out = np.zeros((len(docs), Y.shape[1]))
    for d, (numbers, similar) in enumerate(zip(docs, similarities, strict=True)):
        total = math.fsum(s**power for s in similar)
        for number, s in zip(numbers, similar, strict=True):
            if number >= 0:
                out[d] += weight * s**power / total * (Y[number] > 0)
    return out
