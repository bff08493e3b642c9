"""Places of topics on the map: similar ones are near each other, and none covers another."""

from __future__ import annotations

import numpy as np

from ..tasks import one_blas_thread
from ..types import Array

_STRESS_TURNS = 200
_APART_TURNS = 400


def distances(distributions: Array) -> Array:
    """Hellinger distances between the columns of (D, K): (K, K), from 0 to 1."""
    roots = np.sqrt(distributions.astype(np.float64))
    roots /= np.maximum(np.linalg.norm(roots, axis=0), 1e-300)
    return np.asarray(np.sqrt(np.clip(1 - roots.T @ roots, 0, None)))


@one_blas_thread()
def flat_map(apart: Array) -> Array:
    """Points in the plane, (K, 2), whose distances approximate `apart` (K, K).

    Classical scaling, then majorisation of the stress (SMACOF), which decreases at every step. The result is
    deterministic: on each axis the largest coordinate is made positive. scikit-learn's MDS reaches the same
    stress in the same time, but takes 0.3 s to import, and its arguments for this are new in version 1.8.
    """
    K = len(apart)
    if K == 1:
        return np.zeros((1, 2))
    centre = np.eye(K) - 1 / K
    values, vectors = np.linalg.eigh(-0.5 * centre @ apart**2 @ centre)
    points = np.zeros((K, 2))
    top = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    points[:, : top.shape[1]] = top
    for _ in range(_STRESS_TURNS):
        now = np.linalg.norm(points[:, None] - points[None], axis=2)
        ratio = np.divide(apart, now, out=np.zeros_like(now), where=now > 1e-12)
        B = -ratio
        B[np.diag_indices(K)] = ratio.sum(axis=1) - np.diag(ratio)
        points = B @ points / K
    points -= points.mean(axis=0)
    largest = abs(points).argmax(axis=0)
    return np.asarray(points * np.where(points[largest, [0, 1]] < 0, -1, 1))


def spread(points: Array, radii: Array, width: float, height: float) -> Array:
    """Points moved into a box, (K, 2), and their circles pushed apart until hardly any overlap.

    Parameters
    ----------
    points
        (K, 2), in any units.
    radii
        (K,), in units of the box.
    """
    order = np.argsort(np.argsort(points, axis=0, kind="stable"), axis=0, kind="stable")
    span = np.ptp(points, axis=0)
    straight = (points - points.min(axis=0)) / np.where(span > 0, span, 1)
    even = (order + 0.5) / len(points)  # by rank: fills the box
    box = np.array([width, height])
    room = np.minimum(radii[:, None], box / 2)
    places = room + (0.5 * straight + 0.5 * even) * (box - 2 * room)
    least = radii[:, None] + radii[None] + 2
    for _ in range(_APART_TURNS):
        gaps = places[:, None] - places[None]  # (K, K, 2)
        now = np.linalg.norm(gaps, axis=2)
        # points in one place are moved in different directions
        angles = np.arange(len(places)) * 2.4
        fallback = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None] * np.ones((1, len(places), 1))
        units = np.where(now[..., None] > 1e-9, gaps / np.maximum(now, 1e-9)[..., None], fallback)
        overlap = np.clip(least - now, 0, None)
        np.fill_diagonal(overlap, 0)
        if not overlap.any():
            break
        places = places + 0.35 * (overlap[..., None] * units).sum(axis=1)
        places = np.clip(places, room, box - room)
    return np.asarray(places)
