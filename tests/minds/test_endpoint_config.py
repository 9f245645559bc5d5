"""What an endpoint can be told, and the parts of its client that need no server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from omegaconf import OmegaConf

from autotelic.errors import UserError
from autotelic.minds.endpoint import EndpointConfig, EndpointMind
from autotelic.minds.endpoint_client import Pacer, _retry_after, one_line

URL = "http://127.0.0.1:9/v1"


def test_an_endpoint_without_url_says_what_to_set():
    with pytest.raises(UserError, match=r"^url is not set: .* http://127\.0\.0\.1:8000/v1$"):
        EndpointConfig()


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:8000/v1", "ftp://host/v1", "http:///v1", "http://host:port/v1", "http://host:0/v1"),
        *("http://host:99999/v1", "http://ho st/v1", "http://host/v1\r\nX: y", "http://[::1/v1", "http://a..b/v1"),
        *("http://host/\x1b[31m", f"http://{'a' * 70}/v1"),
    ],
)
def test_a_url_that_is_none_is_one_line(url):
    with pytest.raises(UserError, match=r"^url is .*; it must be like http") as caught:
        EndpointConfig(url=url)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "url", ["http://me:hidden@host/v1", "http://hidden@host/v1", "http://host/v1?key=hidden", "http://a@hidden:x/"]
)
def test_a_url_with_a_secret_is_refused_without_repeating_it(url):
    with pytest.raises(UserError, match="key_env") as caught:
        EndpointConfig(url=url)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("timeout", 0), ("timeout", float("nan")), ("timeout", float("inf")), ("connect_timeout", -1)),
        *(("retries", -1), ("back_off", -0.1), ("rate", -1), ("rate", float("nan")), ("concurrency", 0)),
        *(("temperature", 0), ("max_tokens", 0)),
    ],
)
def test_a_bad_number_is_named(key, value):
    with pytest.raises(UserError, match=f"^{key} is {value}; it must be"):
        EndpointConfig(url=URL, **{key: value})


def test_extra_cannot_take_over_what_the_mind_sets():
    with pytest.raises(UserError, match=r"^extra sets n, stream, which"):
        EndpointConfig(url=URL, extra={"stream": True, "n": 3, "top_p": 0.5})


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_extra_must_be_json(value):
    with pytest.raises(UserError, match=r"^extra holds what JSON does not"):
        EndpointConfig(url=URL, extra={"top_p": value})


def test_the_config_can_be_composed_from_overrides():
    config = OmegaConf.merge(
        OmegaConf.structured(EndpointConfig), {"url": URL, "rate": 2, "extra": {"top_p": 0.5, "stop": ["a"]}}
    )
    composed = OmegaConf.to_object(config)
    assert isinstance(composed, EndpointConfig)
    assert (composed.rate, composed.extra) == (2.0, {"top_p": 0.5, "stop": ["a"]})


def test_a_key_in_place_of_the_name_of_its_variable_is_refused_without_repeating_it():
    with pytest.raises(UserError, match=r"^key_env must be the name") as caught:
        EndpointConfig(url=URL, key_env="sk-hidden")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_key_variable_that_is_not_set_is_one_line(monkeypatch, value):
    monkeypatch.delenv("HIDDEN", raising=False)
    if value is not None:
        monkeypatch.setenv("HIDDEN", value)
    with pytest.raises(UserError, match="key_env names is not set or empty") as caught:
        EndpointMind(EndpointConfig(url=URL, key_env="HIDDEN"))
    assert "HIDDEN" not in str(caught.value)


@pytest.mark.parametrize("value", ["hidden hidden", "hidden\nX-Other: 1", "hiddén"])
def test_a_key_that_no_header_holds_is_refused_without_repeating_it(monkeypatch, value):
    monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(UserError, match="cannot be an API key") as caught:
        EndpointMind(EndpointConfig(url=URL, key_env="SOME_KEY"))
    assert "hidd" not in str(caught.value)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_turns_are_spaced_by_the_rate():
    clock = Clock()
    pacer = Pacer(4.0, clock)
    taken = []
    for _ in range(1000):
        if pacer.turn() == 0:
            taken.append(clock.now)
        clock.now += 1 / 64
    assert len(taken) > 50
    assert all(after - before == 0.25 for before, after in pairwise(taken))


def test_a_turn_that_must_wait_says_how_long():
    clock = Clock()
    pacer = Pacer(4.0, clock)
    assert [pacer.turn(), pacer.turn()] == [0.0, 0.25]
    clock.now += 0.125
    assert pacer.turn() == 0.125


def test_time_without_requests_saves_up_no_turns():
    clock = Clock()
    pacer = Pacer(4.0, clock)
    clock.now += 60
    assert [pacer.turn(), pacer.turn()] == [0.0, 0.25]


def test_without_a_rate_only_a_pause_makes_wait():
    clock = Clock()
    pacer = Pacer(0.0, clock)
    assert [pacer.turn() for _ in range(5)] == [0.0] * 5
    pacer.pause(3)
    pacer.pause(1)
    assert pacer.turn() == 3
    clock.now += 3
    assert pacer.turn() == 0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, 0), ("7", 7), (" 0.5 ", 0.5), ("-3", 0), ("soon", 0), ("", 0), ("nan", 0), ("Fri, 99 Foo", 0)],
)
def test_the_wait_a_server_asks_for_in_seconds(header, seconds):
    assert _retry_after(header) == seconds


def test_the_wait_a_server_asks_for_as_a_date():
    assert 25 < _retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)) <= 30
    assert 25 < _retry_after(format_datetime((datetime.now(UTC) + timedelta(seconds=30)).replace(tzinfo=None))) <= 30
    assert _retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0


def test_foreign_text_becomes_one_short_line():
    assert one_line("a\n\tb \x1b[31m\x00c", 100) == "a b [31mc"
    assert one_line("x" * 500, 10) == "xxxxxxxxx…"
