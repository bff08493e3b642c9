"""The paper's moments by listing words one by one: the oracles of `passes`, `decompose` and `model`.

A document is the list of its tokens. With self-pairs a pair is any two places of that list, the same place
twice included; without them it is two different places. Nothing here knows a closed form, but for
`m2_by_products`, which is for corpora too large to list.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def tokens(row, counts):
    """Word ids of one document, each as often as it is seen: once when binary."""
    return [word for word, count in enumerate(row) for _ in range(int(count) if counts else int(count > 0))]


def tuples(row, size, counts, drop):
    """All ordered `size`-tuples of a document's words."""
    words = tokens(row, counts)
    # permutations go by place, not by value: a word that is there twice makes pairs with its other self
    return list(itertools.permutations(words, size) if drop else itertools.product(words, repeat=size))


def m2(X, counts=False, drop=False):
    """(D, D): how often each ordered pair of words occurs, over the number of pairs."""
    out = np.zeros((X.shape[1],) * 2)
    for row in X:
        for i, j in tuples(row, 2, counts, drop):
            out[i, j] += 1
    return out / max(out.sum(), 1)


def m3(X, counts=False, drop=False):
    """(D, D, D): the same for triples."""
    out = np.zeros((X.shape[1],) * 3)
    for row in X:
        for i, j, k in tuples(row, 3, counts, drop):
            out[i, j, k] += 1
    return out / max(out.sum(), 1)


def m2l(X, Y, counts=False, drop=False):
    """(L, D, D): how often each label occurs with each ordered pair of words, over their number."""
    out = np.zeros((Y.shape[1], X.shape[1], X.shape[1]))
    for row, labels in zip(X, Y, strict=True):
        for i, j in tuples(row, 2, counts, drop):
            for label in np.flatnonzero(labels):
                out[label, i, j] += 1
    return out / max(out.sum(), 1)


def whitened_m2(X, W, counts=False, drop=False):
    """(K, K): M2(W, W)."""
    return np.einsum("ab,ai,bj->ij", m2(X, counts, drop), W, W)


def whitened_m3(X, W, counts=False, drop=False):
    """(K, K, K): M3(W, W, W)."""
    return np.einsum("abc,ai,bj,ck->ijk", m3(X, counts, drop), W, W, W, optimize=True)


def label_moments(X, Y, V, counts=False, drop=False):
    """(L, K): column k is M2L(v_k, v_k)."""
    return np.einsum("lab,ak,bk->lk", m2l(X, Y, counts, drop), V, V)


def statistics(X, Y, counts=False, drop=False):
    """What pass 1 counts beside the pairs, by field of `Statistics`."""
    words = [len(tokens(row, counts)) for row in X]
    pairs = [len(tuples(row, 2, counts, drop)) for row in X]
    n_labels = [np.count_nonzero(row) for row in Y]
    return {
        "n_docs": len(X),
        "n_labelled": sum(n > 0 for n in n_labels),
        "words": sum(words),
        "pairs": sum(pairs),
        "triples": sum(len(tuples(row, 3, counts, drop)) for row in X),
        "label_pairs": sum(n * m for n, m in zip(pairs, n_labels, strict=True)),
        "label_words": sum(n * m for n, m in zip(words, n_labels, strict=True)),
    }


def m2_by_products(X, counts=False, drop=False):
    """M2 of dense X, for corpora with too many words to list."""
    x = np.asarray(X if counts else X > 0, np.float64)
    out = x.T @ x
    if drop:
        out -= np.diag(x.sum(axis=0))
    return out / out.sum()


def triple_sum(Z):
    """(K, K, K): sum of z⊗z⊗z over the rows."""
    Z = np.asarray(Z, np.float64)
    return np.einsum("ni,nj,nk->ijk", Z, Z, Z, optimize=True)


def on_simplex(column):
    """One column as a distribution: of its two signs the one with more positive mass."""
    sides = [[max(sign * x, 0.0) for x in column] for sign in (1, -1)]
    heavier = sides[1] if sum(sides[1]) > sum(sides[0]) else sides[0]
    total = sum(heavier)
    return [x / total for x in heavier] if total > 0 else [1 / len(column)] * len(column)


def theorem_1(lengths, label_numbers, sigma, pi, delta):
    """The paper's Theorem 1 for documents with these numbers of words and labels, constants set to 1."""
    n, ny = np.asarray(lengths, float), np.asarray(label_numbers, float)
    N, K = len(n), len(sigma)
    d2s, d3s, dls = np.mean(n**2), np.mean(n**3), np.mean(n**2 * ny)
    s1, sK = max(sigma), min(sigma)
    eps1 = 1 + math.sqrt(math.log(1 / delta) / 2)
    eps2 = 1 + math.sqrt(math.log(2 / delta) / 2)

    def power(p):
        return sK ** (p / 2)

    mu = 160 * s1**0.5 / (d2s * power(5)) + 32 * (2 * s1) ** 0.5 / (d3s * power(3))
    mu += 4 * s1**0.5 / (d2s * power(2))
    gamma = 160 / (d2s * power(7)) + 32 * 2**0.5 / (d3s * power(5)) + (2 + 8**0.5) / (d2s * power(4))
    weight = 200 / power(5) + 40 * 2**0.5 / power(3)
    return {
        "d2s": d2s,
        "d3s": d3s,
        "dls": dls,
        "epsilon_1": eps1,
        "epsilon_2": eps2,
        "bound_words": mu * eps1 / N**0.5,
        "bound_labels": gamma * 2 * eps1 / N**0.5 + 8 * eps2 / (dls * sK * N**0.5),
        "bound_weights": weight * eps1 / (d3s * N**0.5),
        "n_1": math.log(K) + math.log(math.log(K * math.sqrt(max(pi) / min(pi)))),
        "n_2": (eps1 / (d2s * sK)) ** 2,
        "n_3": (K * eps1 * (10 / (d2s * power(5)) + 2 * 2**0.5 / (d3s * power(3)))) ** 2,
    }
