"""Plots as inline SVG."""

from __future__ import annotations

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
