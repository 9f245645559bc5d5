"""Plots as inline SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from autotelic.show import plots
from autotelic.show.plots import Curve


def attributes(svg: str) -> set[str]:
    return {name for node in ElementTree.fromstring(svg).iter() for name in node.attrib}


def test_colours_are_variables_and_no_style_is_left():
    svg = plots.lines("rate", [0, 1, 2], [Curve("deduction", "blue", [0.1, np.nan, 0.3])], percent=True)
    assert 'stroke="var(--blue)"' in svg
    assert "style" not in attributes(svg)
    assert "#0072b2" not in svg


def test_a_plot_is_a_function_of_its_figures():
    layers = [Curve("a", "green", np.arange(9)), Curve("b", "red", np.ones(9))]
    assert plots.stack("x", range(9), layers) == plots.stack("x", range(9), layers)


def test_names_are_text():
    svg = plots.lines("<b>$x_{y$", [0], [Curve("k", "blue", [1.0])])
    assert ElementTree.fromstring(svg).attrib["aria-label"] == "<b>$x_{y$"


@pytest.mark.parametrize("values", [[], [np.nan, np.nan], [0.0, 0.0], [1e9, -1e9]])
def test_plots_of_little_or_nothing_are_drawn(values):
    curve = Curve("k", "blue", values)
    for svg in (
        plots.lines("l", range(len(values)), [curve]),
        plots.lines("p", range(len(values)), [curve], percent=True),
        plots.stack("s", range(len(values)), [curve]),
        plots.stack("c", range(len(values)), [curve], share=False),
    ):
        assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_condensing_keeps_mean_and_extremes():
    steps, values = np.arange(1000.0), np.random.default_rng(0).random(1000)
    x, mean, low, high = plots.condense(steps, values, 100)
    assert len(x) == len(mean) == 100
    assert np.average(mean) == pytest.approx(values.mean())
    assert low.min() == values.min()
    assert high.max() == values.max()


def test_a_running_mean_of_a_line_is_the_line():
    assert plots.running_mean(np.arange(50.0)) == pytest.approx(np.arange(50.0))


def test_kinds_keep_their_colours_whatever_else_there_is():
    alone, crowded = plots.kind_colours(["deduction"]), plots.kind_colours(["chess", "deduction", "go"])
    assert alone["deduction"] == crowded["deduction"]
    assert len({crowded[kind] for kind in ("chess", "deduction", "go")}) == 3


def test_classes_of_one_plot_have_different_colours():
    colours = plots.class_colours(["admitted", "format", "syntax", "heldout", "strange"])
    assert len(set(colours.values())) == 5


@pytest.mark.parametrize(
    ("low", "high", "most", "whole", "expected"),
    [
        (0.0, 1.0, 4, False, [0.0, 0.25, 0.5, 0.75, 1.0]),
        (-0.3, 10.2, 6, True, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
        (-0.5, 1.5, 6, True, [0.0, 1.0]),
        (-1.1e9, 1.1e9, 4, False, [-1e9, -5e8, 0.0, 5e8, 1e9]),
        (1234.0, 1237.0, 4, False, [1234.0, 1235.0, 1236.0, 1237.0]),
    ],
)
def test_ticks_are_round_and_within_the_span(low, high, most, whole, expected):
    assert plots.ticks(low, high, most, whole) == pytest.approx(expected)


def test_a_curve_goes_from_the_lower_left_to_the_upper_right():
    svg = plots.lines("rise", [0, 1, 2], [Curve("k", "blue", [1.0, 2.0, 3.0])])
    line = next(node for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("polyline"))
    x, y = np.array([point.split(",") for point in line.attrib["points"].split()], dtype=float).T
    assert np.diff(x) == pytest.approx(np.diff(x)[0], abs=0.1)
    assert np.diff(y) == pytest.approx(np.diff(y)[0], abs=0.1)
    assert np.diff(x)[0] > 0 > np.diff(y)[0]


def test_layers_of_a_stack_of_shares_fill_the_frame():
    svg = plots.stack("s", [0], [Curve("a", "green", [1.0]), Curve("b", "red", [3.0])])
    bars = [node.attrib["d"] for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("path")]
    (below, upto), (over, top) = [[float(part) for part in re.findall(r"[,V]([\d.]+)", bar)] for bar in bars]
    assert upto == over
    assert (below - upto) * 3 == pytest.approx(over - top, abs=0.3)


def test_a_stack_without_layers_is_an_empty_frame():
    assert "path" not in plots.stack("s", [0, 1], [])


def test_what_lies_beyond_a_scale_stays_in_the_frame():
    svg = plots.lines("p", [0, 1], [Curve("a", "blue", [0.9, 1.0], spread=[0.5, 0.5])], percent=True)
    band = next(node for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("polygon"))
    assert min(float(point.split(",")[1]) for point in band.attrib["points"].split()) >= 7.0
