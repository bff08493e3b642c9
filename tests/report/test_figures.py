"""Figures are well-formed, within their frame; and topics on the map lie where their words put them."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.report.conftest import EVIL, Fitted
from threepass.metrics.scores import Scores
from threepass.report import figures
from threepass.report.layout import distances, flat_map, spread
from threepass.report.measures import FrequencyBand
from threepass.report.svg import Axis, element, nice_ticks, short


def check_inside(drawing: str) -> None:
    root = ElementTree.fromstring(drawing)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for part in root.iter():
        for names, most in ((("x", "x1", "x2", "cx"), width), (("y", "y1", "y2", "cy"), height)):
            for name in names:
                assert -1e-6 <= float(part.attrib.get(name, 0)) <= most + 1e-6, part.attrib


@pytest.mark.parametrize(
    ("values", "further"),
    [([0.1], []), ([0.5, 0.1, 1e-9], [1e-10]), ([3e-4] * 5, []), ([1e-300, 1e-301], [])],
)
def test_spectrum(values: list[float], further: list[float]) -> None:
    drawing = figures.spectrum(np.array(values), further)
    check_inside(drawing)
    assert drawing.count("dot first") == len(values)
    assert drawing.count("dot hollow") == len(further)
    assert f"K = {len(values)}" in drawing


@pytest.mark.parametrize("values", [[1.0], [-3.0, 2.0, 15.0], [0.0, 0.0], [1e9]])
def test_tensor(values: list[float]) -> None:
    check_inside(figures.tensor(np.array(values)))


@pytest.mark.parametrize("counts", [[0, 0], [1], [5, 3, 3, 0], list(range(4000))])
def test_label_curve(counts: list[int]) -> None:
    check_inside(figures.label_curve(np.array(counts)))


def test_calibration_and_bars() -> None:
    row = {"from": 0.0, "to": 0.1, "pairs": 10, "predicted": 0.05, "observed": 0.0}
    rows = [row, {**row, "predicted": 1.0, "observed": 1.0}]
    for is_calibrated in (True, False):
        figure = figures.calibration(Scores(reliability=rows, calibrated=is_calibrated))
        check_inside(figure)
        assert ("robabilit" in figure) == is_calibrated
    bands = [
        FrequencyBand("0", 3, 0, 0, 0),
        FrequencyBand("1–2", 3, 4, 4, 9),
        FrequencyBand("3+", 1, 8, 0, 0),
    ]
    drawing = figures.frequency_bars(bands)
    check_inside(drawing)
    assert drawing.count('class="bar"') == 2
    assert "100%" in drawing


def test_topic_map__shows_every_topic(fitted: Fitted) -> None:
    topics = fitted.model.topics(5)
    drawing = figures.topic_map(topics, fitted.model.moments.O)
    check_inside(drawing)
    assert all(f'href="#topic-{topic.number}"' in drawing for topic in topics)
    assert figures.topic_map(topics, fitted.model.moments.O) == drawing


def test_distances__are_hellinger() -> None:
    rng = np.random.default_rng(0)
    O = rng.dirichlet(np.ones(7), 4).T
    expected = [[math.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2) for q in O.T] for p in O.T]
    np.testing.assert_allclose(distances(O), expected, atol=1e-7)


def test_flat_map__keeps_distances_that_a_plane_can_have() -> None:
    points = np.random.default_rng(1).standard_normal((12, 2))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    found = flat_map(apart)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found[None], axis=2), apart, atol=1e-6)


@pytest.mark.parametrize("K", [1, 2, 3, 40])
def test_spread__no_two_in_one_place(K: int) -> None:
    points = np.zeros((K, 2))
    radii = np.full(K, 12.0)
    places = spread(flat_map(np.zeros((K, K))) + points, radii, 500, 300)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e3 * np.eye(K)
    assert gaps.min() > 20
    assert (places >= 12).all()
    assert (places <= [488, 288]).all()


def test_element__escapes_everything() -> None:
    made = element("text", EVIL, class_=EVIL, font_size=1.50, missing=None)
    parsed = ElementTree.fromstring(made)
    assert parsed.text == parsed.attrib["class"] == EVIL
    assert parsed.attrib["font-size"] == "1.5"
    assert set(parsed.attrib) == {"class", "font-size"}
    with pytest.raises(ValueError, match="cannot be drawn"):
        element("circle", cx=float("nan"))


def test_ticks() -> None:
    assert nice_ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert nice_ticks(3, 3) == [3]
    assert Axis.of([1, 1000], log=True).ticks() == pytest.approx([1, 10, 100, 1000])
    assert len(Axis.of([2, 3], log=True).ticks()) == 2
    assert [short(x) for x in (0, 0.25, 1200, 3.4e6, 2e-7)] == ["0", "0.25", "1.2k", "3.4M", "2e-7"]
