"""The figures of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..display import how_many
from ..metrics.scores import Scores
from ..model.evidence import Topic
from ..types import Array
from .facts import clip
from .layout import distances, flat_map, spread
from .measures import FrequencyBand
from .svg import Axis, Frame, drawing, element

if TYPE_CHECKING:
    from markupsafe import Markup

MAP_TOPICS = 250
"""Most topics on the map: more could not be told apart."""
SURENESS = (0.25, 0.5, 0.75, 1.0)
"""Bounds between the classes of error bars; each class has a colour on the map."""


def spectrum(eigenvalues: Array, further: Sequence[float]) -> Markup:
    """Eigenvalues by rank: the K in use, then the next ones."""
    K, values = len(eigenvalues), [*eigenvalues.tolist(), *further]
    frame = Frame(Axis(0, len(values) + 1), Axis.of(values, log=True), "rank", "eigenvalue of word pairs")
    parts = [frame.axes()]
    at = frame.px(K + 0.5)
    parts.append(element("line", x1=at, x2=at, y1=frame.top, y2=frame.height - frame.bottom, class_="mark"))
    near_end = at > frame.width * 0.75
    parts.append(
        element(
            "text",
            f"K = {K}",
            x=at - 6 if near_end else at + 6,
            y=frame.top + 12,
            class_=f"note {'end' if near_end else ''}",
        )
    )
    for i, value in enumerate(values, start=1):
        kind = "dot first" if i <= K else "dot hollow"
        parts.append(_dot(frame, i, value, 2.6, kind, f"eigenvalue {i}: {value:.3g}"))
    return drawing(frame.width, frame.height, f"Eigenvalues of the word pairs; K = {K} are used", *parts)


def tensor(eigenvalues: Array) -> Markup:
    """Eigenvalues of the tensor, largest first."""
    values = sorted(eigenvalues.tolist(), reverse=True)
    frame = Frame(Axis(0, len(values) + 1), Axis.of([0.0, *values]), "rank", "eigenvalue of word triples")
    base = frame.py(max(0.0, frame.y.low))
    parts = [frame.axes()]
    for i, value in enumerate(values, start=1):
        x = frame.px(i)
        parts.append(element("line", x1=x, x2=x, y1=base, y2=frame.py(value), class_="stem"))
        parts.append(_dot(frame, i, value, 2.6, "dot second", f"eigenvalue {i}: {value:.3g}"))
    return drawing(frame.width, frame.height, f"{len(values)} eigenvalues of the whitened tensor", *parts)


def label_curve(counts: Array) -> Markup:
    """Number of documents of each label, most frequent first; both axes are logarithmic."""
    ranked = np.sort(counts)[::-1]
    ranked = ranked[ranked > 0]
    if not len(ranked):
        ranked = np.ones(1)
    places = np.unique(np.geomspace(1, len(ranked), 60).round().astype(int))
    frame = Frame(
        Axis(0.8, len(ranked) * 1.3, True),
        Axis.of([1.0, *ranked[:1].tolist()], log=True),
        "labels, most frequent first",
        "training documents",
    )
    points = " ".join(f"{frame.px(i):.1f},{frame.py(ranked[i - 1]):.1f}" for i in places.tolist())
    line = element("polyline", points=points, class_="line first")
    title = f"Documents of each of {how_many(len(ranked), 'label')}, most frequent first"
    return drawing(frame.width, frame.height, title, frame.axes(), line)


def calibration(scores: Scores) -> Markup:
    """Predicted probability (or score, where it is not calibrated) against the observed share."""
    rows, is_calibrated = scores["reliability"], scores["calibrated"]
    predicted, title = "score", "Scores against observed shares"
    if is_calibrated:
        predicted, title = "predicted probability", "Predicted probabilities against observed shares"
    frame = Frame(Axis(0, 1), Axis(0, 1), predicted, "share that is true", height=320)
    diagonal = element("line", x1=frame.px(0), y1=frame.py(0), x2=frame.px(1), y2=frame.py(1), class_="mark")
    points = " ".join(f"{frame.px(row['predicted']):.1f},{frame.py(row['observed']):.1f}" for row in rows)
    parts = [frame.axes(), diagonal, element("polyline", points=points, class_="line first")]
    for row in rows:
        said = (
            f"{row['pairs']:,} pairs of a document and a label: "
            f"{'predicted' if is_calibrated else 'score'} {row['predicted']:.3f}, "
            f"observed {row['observed']:.3f}"
        )
        size = 2 + 0.7 * math.log10(max(row["pairs"], 1))
        parts.append(_dot(frame, row["predicted"], row["observed"], size, "dot first", said))
    return drawing(frame.width, frame.height, title, *parts)


def frequency_bars(bands: Sequence[FrequencyBand]) -> Markup:
    """Share of true labels among the five best, by frequency of the label in training."""
    width, height, left, top, bottom = 480, 320, 52, 14, 58
    frame = Frame(
        Axis(0, len(bands)),
        Axis(0, 1),
        "training documents of the label",
        "found among the five best",
        width=width,
        height=height,
        left=left,
        top=top,
        bottom=bottom,
    )
    parts = [frame.axes(x_ticks=())]
    for i, band in enumerate(bands):
        x0, x1 = frame.px(i + 0.12), frame.px(i + 0.88)
        centre, base = (x0 + x1) / 2, frame.py(0)
        parts.append(element("text", band.name, x=centre, y=base + 17, class_="tick middle"))
        if not band.occurrences:
            parts.append(element("text", "–", x=centre, y=base - 5, class_="tick middle"))
            continue
        y = frame.py(band.recall)
        said = f"{band.name}: {band.found:,} of {band.occurrences:,} true labels found"
        bar = element(
            "rect", element("title", said), x=x0, y=y, width=x1 - x0, height=max(base - y, 0.5), class_="bar"
        )
        parts.append(bar)
        parts.append(element("text", f"{band.recall:.0%}", x=centre, y=y - 4, class_="value middle"))
    return drawing(width, height, "Share of true labels found, by frequency of the label", *parts)


def topic_map(topics: Sequence[Topic], word_topics: Array) -> Markup:
    """Topics as circles: size is weight, nearness is similarity of words, darkness is certainty.

    Parameters
    ----------
    topics
        Topics to show, heaviest first.
    word_topics
        (D, K): O.
    """
    width, height = 960, 560
    columns = [topic.number for topic in topics]
    weights = np.array([topic.weight for topic in topics])
    # any number of circles covers about a third of the map
    radii = np.sqrt(weights / max(weights.sum(), 1e-300) * 0.34 * width * height / math.pi)
    radii = np.clip(radii, 5, 70)
    places = spread(flat_map(distances(word_topics[:, columns])), radii, width, height)
    circles, words = [], []
    taken: list[tuple[float, float, float, float]] = []
    for topic, (x, y), radius in zip(topics, places.tolist(), radii.tolist(), strict=True):
        words_said = ", ".join(clip(name) for name, _ in topic.words[:5])
        said = f"topic {topic.number}, {topic.weight:.1%}: {words_said}"
        circle = element(
            "circle", element("title", said), cx=x, cy=y, r=radius, class_=f"topic {sureness(topic)}"
        )
        # not reachable by Tab: the cards link to the same topics, in reading order
        circles.append(element("a", circle, href=f"#topic-{topic.number}", tabindex="-1"))
        word = clip(topic.words[0][0], 14)
        half = 4.6 * len(word) + 2
        box = (max(half, min(x, width - half)), y, half, 8.0)
        if all(abs(box[0] - bx) > half + bh or abs(y - by) > 16 for bx, by, bh, _ in taken):
            taken.append(box)
            words.append(element("text", word, x=box[0], y=y + 4.5, class_="name middle"))
    return drawing(width, height, f"Map of {how_many(len(topics), 'topic')}", *circles, *words)


def sureness(topic: Topic) -> str:
    """Class of a topic's error bar, for the stylesheet."""
    if math.isnan(topic.word_error):
        return "sure-unknown"
    return f"sure-{sum(topic.word_error >= bound for bound in SURENESS)}"


def _dot(frame: Frame, x: float, y: float, radius: float, kind: str, said: str) -> Markup:
    return element("circle", element("title", said), cx=frame.px(x), cy=frame.py(y), r=radius, class_=kind)
