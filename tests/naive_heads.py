"""What the heads sum up, document by document, dense and in double precision: oracles of `passes`.

X holds counts, Y ones; rows are documents. A document of X~ is called x, its labels y.
"""

from __future__ import annotations

import math

import numpy as np


def idf(X):
    """The weight of each word: log((N + 1) / (df + 1/2))."""
    return np.array([math.log((len(X) + 1) / (sum(c > 0 for c in column) + 0.5)) for column in X.T])


def term_frequency(count, scheme):
    """How much a word counts that stands in a document, by how often it stands there."""
    if scheme == "binary":
        return 1.0
    if scheme == "log" and count > 1:
        return 1 + math.log(count)
    return count


def weighted(X, idf, scheme="log"):
    """(n, D): tf · idf, every row that is not zero divided by its length."""
    out = np.zeros(X.shape)
    for d, row in enumerate(X):
        for word, count in enumerate(row):
            if count > 0:
                out[d, word] = term_frequency(count, scheme) * idf[word]
        length = math.sqrt(math.fsum(x * x for x in out[d]))
        if length > 0:
            out[d] /= length
    return out


def held_out(n, share, seed=2**32 + 3):
    """(n,) bool: the documents whose hash is below the share; splitmix64 in whole numbers of any size."""

    def uniform(number):
        z = (number + seed * 0xD1342543DE82EF95 + 1) * 0x9E3779B97F4A7C15 % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        z ^= z >> 31
        return (z >> 11) / 2**53

    return np.array([uniform(number) < share for number in range(n)], bool)


def cross_moment(x, Y):
    """(L, D): the sum of a label's documents."""
    out = np.zeros((Y.shape[1], x.shape[1]))
    for document, labels in zip(x, Y, strict=True):
        for label in np.flatnonzero(labels):
            out[label] += document
    return out


def entries_each(lengths, most_entries):
    """How many entries a label may keep: what fits when all labels may keep as many, but at least one."""
    each = 1
    while each < max(lengths) and sum(min(length, each + 1) for length in lengths) <= most_entries:
        each += 1
    return each


def largest(M, each):
    """M (L, D) with only the `each` largest entries of each row; no two entries of a row may be equal."""
    out = np.zeros_like(M)
    for label, row in enumerate(M):
        for word in sorted(np.flatnonzero(row), key=lambda word: -row[word])[:each]:
            out[label, word] = row[word]
    return out


def pruned(M, most_entries):
    """M (L, D) without the smallest entries of long rows."""
    lengths = [np.count_nonzero(row) for row in M]
    return M.copy() if sum(lengths) <= most_entries else largest(M, entries_each(lengths, most_entries))


def pruned_sum(M, x, Y, most_entries):
    """M and the cross moment of some documents, while more are to come: a quarter more may be kept.

    How many each label may keep is found before anything is added, from how many entries there may be: those
    that there are, and every word of every document of the label.
    """
    total = M + cross_moment(x, Y)
    lengths = [
        np.count_nonzero(row) + sum(np.count_nonzero(x[d]) for d in np.flatnonzero(labels))
        for row, labels in zip(M, Y.T, strict=True)
    ]
    room = most_entries * 5 // 4
    return total if sum(lengths) <= room else largest(total, entries_each(lengths, room))


def word_directions(x, omega):
    """(D, m): the sum of x (x · omega)."""
    out = np.zeros(omega.shape)
    for document in x:
        out += np.outer(document, document @ omega.astype(np.float64))
    return out


def features(x, B, waves, phases):
    """(n, p + m + 1): z = x B, sqrt(2/m) cos(z/|z| · w + phase) for each wave w, and a one."""
    m = len(phases)
    out = []
    for document in x:
        z = document @ B.astype(np.float64)
        length = math.sqrt(sum(z * z))
        direction = z / length if length > 0 else z
        cosines = [
            math.sqrt(2 / m) * math.cos(sum(direction * wave) + phase)
            for wave, phase in zip(waves.astype(np.float64).T, phases, strict=True)
        ]
        out.append([*z, *cosines, 1.0])
    return np.array(out).reshape(len(x), B.shape[1] + m + 1)


def ridge_sums(F, Y):
    """F'F (p, p) and Y'F (L, p)."""
    gram, labels = np.zeros((F.shape[1],) * 2), np.zeros((Y.shape[1], F.shape[1]))
    for f, row in zip(F, Y, strict=True):
        gram += np.outer(f, f)
        for label in np.flatnonzero(row):
            labels[label] += f
    return {"gram": gram, "labels": labels}


def responsibilities(X, O, pi, Y=None, Q=None, temperature=1.0):
    """(n, K) P[topic | document] by plain products over its distinct words, and labels where Q is given."""
    R = np.zeros((len(X), len(pi)))
    for d, row in enumerate(X):
        for h, weight in enumerate(pi):
            likelihood = weight * math.prod(O[word, h] for word in np.flatnonzero(row))
            if Q is not None:
                likelihood *= math.prod(Q[label, h] for label in np.flatnonzero(Y[d]))
            R[d, h] = likelihood ** (1 / temperature)
        R[d] /= sum(R[d])
    return R


def em_sums(X, Y, R, counts=False):
    """X'R (D, K), Y'R (L, K) and the sum of R (K,); X as counts or as ones."""
    words, labels = np.zeros((X.shape[1], R.shape[1])), np.zeros((Y.shape[1], R.shape[1]))
    for row, marks, r in zip(X, Y, R, strict=True):
        for word, count in enumerate(row):
            if count > 0:
                words[word] += (count if counts else 1) * r
        for label in np.flatnonzero(marks):
            labels[label] += r
    return {"words": words, "labels": labels, "topics": R.sum(axis=0)}


def log_likelihood(X, O, pi):
    """Of a mixture of topics, one for each document, for the distinct words of the documents."""
    return math.fsum(
        math.log(
            math.fsum(
                weight * math.prod(O[word, h] for word in np.flatnonzero(row)) for h, weight in enumerate(pi)
            )
        )
        for row in X
    )
