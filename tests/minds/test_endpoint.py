"""The endpoint mind against a real server on this machine that can be told to misbehave."""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.minds import endpoint_client
from autotelic.minds.endpoint import EndpointConfig, EndpointMind
from autotelic.testing import check_mind

from ..chat_server import Behaviour, Handler, Server, answer, completion


def ignore_n(handler: Handler, body: dict[str, Any]) -> None:
    answer(handler, {**body, "n": 1})


def status(code: int, content: bytes | str = b"", kind: str = "application/json", **headers: str) -> Behaviour:
    raw = content.encode() if isinstance(content, str) else content
    return lambda handler, body: handler.reply(code, raw, kind, **headers)


def hang(handler: Handler, body: dict[str, Any]) -> None:
    handler.server.over.wait(60)
    handler.close_connection = True


def drip(handler: Handler, body: dict[str, Any]) -> None:
    """A byte now and then, for ever: no single read takes long."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def flood(handler: Handler, body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b" " * 65536)


def drop(handler: Handler, body: dict[str, Any]) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def drop_half_way(handler: Handler, body: dict[str, Any]) -> None:
    content = completion(["text"])
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.wfile.flush()
    drop(handler, body)


def promise_more(handler: Handler, body: dict[str, Any]) -> None:
    """Valid JSON, but shorter than the length says: nobody knows what else there was."""
    content = completion(["text"])
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content) + 10))
    handler.end_headers()
    handler.wfile.write(content)
    handler.close_connection = True


def promise_less(handler: Handler, body: dict[str, Any]) -> None:
    content = completion(["text"])
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content) - 10))
    handler.end_headers()
    handler.wfile.write(content)


def speak_otherwise(handler: Handler, body: dict[str, Any]) -> None:
    handler.wfile.write(b"220 mail.example ready\r\n")
    handler.close_connection = True


@pytest.fixture
def server() -> Iterator[Server]:
    serving = Server()
    yield serving
    serving.stop()


@pytest.fixture
def mind(server: Server) -> Callable[..., EndpointMind]:
    """A mind that asks the server; patient, but in a hurry."""

    def build(**settings: Any) -> EndpointMind:
        quick = {"url": server.url, "model": "parrot", "timeout": 5.0, "retries": 2, "back_off": 0.01}
        return EndpointMind(EndpointConfig(**{**quick, **settings}))

    return build


@pytest.fixture
def full() -> Iterator[str]:
    """The address of a server that takes no connections: they wait, for its queue is full."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def ask(mind: EndpointMind, prompts: int = 1, n: int = 1, **options: Any) -> list[str]:
    generations = mind.sample([f"p{at}" for at in range(prompts)], n, np.random.default_rng(0), **options)
    return [generation.text for generation in generations]


def complaint(mind: EndpointMind, n: int = 1) -> str:
    """The one line of a call that fails, without the address it begins with."""
    with pytest.raises(UserError) as caught:
        ask(mind, n=n)
    line, url = str(caught.value), str(mind.config.url)
    assert line.startswith(f"{url}: ")
    assert line.isprintable()
    assert len(line) < 500
    return line.removeprefix(f"{url}: ")


# What is asked and what comes back


def test_it_keeps_the_promises_of_a_mind_that_does_not_learn(mind):
    check_mind(mind(), ["p0", "p1", "p2"])


def test_samples_come_prompt_by_prompt_whatever_the_order_of_arrival(server, mind):
    def late_at_first(handler: Handler, body: dict[str, Any]) -> None:
        time.sleep(0.3 - 0.05 * int(body["messages"][-1]["content"][1:]))
        answer(handler, body)

    server.always = late_at_first
    texts = ask(mind(concurrency=6), prompts=6, n=2)
    assert [text.split("/")[0] for text in texts] == [f"p{at}" for at in range(6) for _ in range(2)]
    assert [text.split("/")[2] for text in texts] == ["0", "1"] * 6
    assert server.busiest > 1


def test_a_request_holds_what_was_configured(server, mind):
    ask(mind(temperature=0.7, max_tokens=99, system="Be brief.", extra={"top_p": 0.5}), n=3)
    (body,) = server.bodies
    assert isinstance(body.pop("seed"), int)
    assert body == {
        "model": "parrot",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "p0"}],
        "temperature": 0.7,
        "max_tokens": 99,
        "top_p": 0.5,
        "n": 3,
    }


def test_a_conversation_is_sent_turn_by_turn(server, mind):
    mind(system="Be brief.").sample([("one?", "1", "two?")], 1, np.random.default_rng(0))
    said = [(turn["role"], turn["content"]) for turn in server.bodies[0]["messages"]]
    assert said == [("system", "Be brief."), ("user", "one?"), ("assistant", "1"), ("user", "two?")]


def test_a_greedy_request_has_temperature_zero(server, mind):
    ask(mind(), greedy=True, max_tokens=7)
    assert (server.bodies[0]["temperature"], server.bodies[0]["max_tokens"]) == (0, 7)


def test_equal_generators_send_equal_seeds_and_others_do_not(mind):
    first, again = ask(mind(), prompts=8), ask(mind(), prompts=8)
    assert first == again
    assert len({text.split("/")[1] for text in first}) == 8
    assert mind().sample(["p0"], 1, np.random.default_rng(1))[0].text != first[0]


def test_nothing_asked_sends_nothing(server, mind):
    assert ask(mind(model=None), prompts=0) == []
    assert server.seen == []


def test_an_answer_that_was_cut_is_not_finished(server, mind):
    server.script = [status(200, completion(["cut"], "length")), status(200, completion(["whole"]))]
    sampled = mind(concurrency=1).sample(["a", "b"], 1, np.random.default_rng(0))
    assert [(each.text, each.finished) for each in sampled] == [("cut", False), ("whole", True)]


@pytest.mark.parametrize("several", [ignore_n, status(500, "only one"), status(400, "n must be 1"), status(422, "no")])
def test_a_server_that_gives_one_sample_at_a_time_is_asked_for_the_rest(server, mind, several):
    server.always = lambda handler, body: (several if body.get("n", 1) > 1 else answer)(handler, body)
    asked = mind()
    texts = ask(asked, prompts=3, n=4)
    assert [text.split("/")[0] for text in texts] == [f"p{at}" for at in range(3) for _ in range(4)]
    assert len(set(texts)) == 12  # each was asked for with a seed of its own
    before = len(server.seen)
    ask(asked, prompts=3, n=4)
    assert [body.get("n", 1) for body in server.bodies[before:]] == [1] * 12  # it has learned


def test_a_server_that_gives_more_samples_than_asked_gives_too_many(server, mind):
    server.always = status(200, completion(["a", "b", "c"]))
    assert ask(mind(), prompts=2) == ["a", "a"]


def test_connections_are_kept_open(server, mind):
    ask(mind(concurrency=1), prompts=5)
    assert len({port for *_, port in server.seen}) == 1


def test_a_connection_that_the_server_closed_at_rest_is_opened_again(server, mind):
    server.script = [answer, drop, answer]  # to the client the second looks like a connection that had been closed
    assert len(ask(mind(concurrency=1, retries=0), prompts=2)) == 2


def test_no_more_requests_at_once_than_allowed(server, mind):
    def slowly(handler: Handler, body: dict[str, Any]) -> None:
        time.sleep(0.05)
        answer(handler, body)

    server.always = slowly
    ask(mind(concurrency=3), prompts=9)
    assert server.busiest == 3


def test_the_rate_holds_over_all_threads(server, mind):
    began = time.monotonic()
    ask(mind(concurrency=8, rate=25.0), prompts=11)
    assert time.monotonic() - began >= 10 / 25


def test_the_only_model_of_a_server_is_found(server, mind):
    asked = mind(model=None)
    ask(asked, prompts=2)
    ask(asked)
    assert [body.get("model") for body in server.bodies] == [None, "parrot", "parrot", "parrot"]
    assert server.seen[0][:2] == ("GET", "/v1/models")


def test_several_models_are_listed_to_choose_from(server, mind):
    server.models = ["parrot", "cockatoo"]
    assert complaint(mind(model=None)) == "serves 2 models (cockatoo, parrot): set model to the one to play"


def test_a_server_without_a_list_of_models_is_one_line(server, mind):
    server.always = status(200, "[]")
    assert complaint(mind(model=None)).startswith("does not list its models ([]): check url, or set model")


def test_the_key_is_sent(server, mind, monkeypatch):
    monkeypatch.setenv("SOME_KEY", " abc123\n")
    ask(mind(key_env="SOME_KEY"))
    assert server.seen[0][3]["Authorization"] == "Bearer abc123"


def test_without_key_env_no_key_is_sent(server, mind, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "abc123")
    ask(mind())
    assert "Authorization" not in server.seen[0][3]


def test_the_key_is_in_no_line_even_if_the_server_repeats_it(server, mind, monkeypatch, caplog):
    monkeypatch.setenv("SOME_KEY", "abc123")
    for content in ('{"error": {"message": "bad key abc123"}}', "abc123", '{"abc123": 1}', f"{'x' * 96}abc123"):
        for code in (200, 302, 401, 429, 500):
            server.always = status(code, content, Location="http://abc123/", Retry_After="0")
            assert "abc1" not in complaint(mind(key_env="SOME_KEY", retries=1, back_off=0))
    assert "abc1" not in caplog.text


# An answer that is bad, but an answer


@pytest.mark.parametrize(
    "message",
    [
        {"finish_reason": "content_filter", "message": {"content": ""}},
        {"finish_reason": "content_filter", "message": {"content": None}},
        {"finish_reason": "stop", "message": {"content": None, "refusal": "I cannot."}},
        {"finish_reason": "length", "message": {"content": None}},
        {"finish_reason": "stop", "message": {"reasoning_content": "Let me see."}},
    ],
    ids=["empty", "filtered", "refused", "cut", "thought"],
)
def test_an_answer_that_is_withheld_is_an_empty_text(server, mind, message):
    server.script = [status(200, json.dumps({"choices": [message]}))]
    assert ask(mind()) == [""]


def test_half_a_character_is_replaced(server, mind):
    server.script = [status(200, completion(["a\ud800b"]))]
    assert ask(mind()) == ["a?b"]


# What passes


@pytest.mark.parametrize(
    "trouble",
    [
        *(drop_half_way, drop, promise_more, promise_less, speak_otherwise, status(200, "{"), status(200, "<html>")),
        *(status(200, "{}"), status(200, completion([None])), status(408), status(500), status(502), status(503)),
    ],
)
def test_what_may_pass_is_tried_again(server, mind, trouble):
    server.script = [trouble, trouble]
    assert len(ask(mind(concurrency=1))) == 1
    assert len(server.seen) == 3


def test_a_server_that_comes_up_late_is_waited_for(mind, caplog):
    with socket.socket() as taken:  # a port at which nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    late: list[Server] = []
    timer = threading.Timer(0.3, lambda: late.append(Server(port)))
    timer.start()
    try:
        with caplog.at_level(logging.WARNING):
            assert len(ask(mind(url=f"http://127.0.0.1:{port}/v1", retries=100, back_off=0.05), prompts=4)) == 4
    finally:
        timer.join()
        late[0].stop()
    assert caplog.text.count("connection refused") == 1  # said once, not once a try


def test_a_slow_request_is_asked_again(server, mind):
    server.script = [hang]
    assert len(ask(mind(timeout=0.2))) == 1


def test_waits_double_up_to_a_bound(mind, monkeypatch, server):
    waited = []
    monkeypatch.setattr(endpoint_client.Halt, "wait", lambda self, seconds: waited.append(seconds))
    monkeypatch.setattr(endpoint_client.random, "uniform", lambda low, high: high)
    server.always = status(500)
    complaint(mind(retries=8, back_off=1.0))
    assert [seconds for seconds in waited if seconds] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_rate_limit_in_seconds_is_waited_for(server, mind):
    server.script = [status(429, Retry_After="1")]
    ask(mind())
    assert server.times[1] - server.times[0] >= 1


def test_a_pause_that_one_thread_is_told_holds_for_the_others(server, mind):
    told = threading.Event()

    def limited(handler: Handler, body: dict[str, Any]) -> None:
        status(429, Retry_After="0.6")(handler, body)
        told.set()

    def after_that(handler: Handler, body: dict[str, Any]) -> None:
        told.wait(5)
        time.sleep(0.2)  # so that the client has read the other answer
        answer(handler, body)

    server.script = [limited, after_that]
    ask(mind(concurrency=2), prompts=8)
    assert min(server.times[2:]) - server.times[0] >= 0.6


def test_a_rate_limit_as_a_date_is_waited_for(server, mind):
    def limited(handler: Handler, body: dict[str, Any]) -> None:
        until = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)  # a date has whole seconds
        status(429, Retry_After=until)(handler, body)

    server.script = [limited]
    ask(mind())
    assert server.times[1] - server.times[0] >= 0.9


def test_one_that_is_sent_away_while_others_are_served_is_not_given_up(server, mind):
    sent_away = 0

    def unlucky(handler: Handler, body: dict[str, Any]) -> None:
        nonlocal sent_away
        if body["messages"][-1]["content"] == "p0" and sent_away < 5:
            sent_away += 1
            handler.reply(429, b"")
        else:
            answer(handler, body)

    asked = mind(concurrency=2, retries=0)
    ask(asked)
    server.always = unlucky
    assert len(ask(asked, prompts=6)) == 6
    assert sent_away == 5


# What does not


def test_a_server_that_is_down(server, mind):
    server.stop()
    assert complaint(mind()) == "connection refused: is the server running? (tried 3 times)"


def test_a_server_that_goes_down_after_a_while(server, mind):
    asked = mind()
    ask(asked)
    server.stop()
    assert complaint(asked) == "connection refused: is the server running? (tried 3 times)"


def test_a_host_that_does_not_exist(mind, monkeypatch):
    def unknown(*args: Any, **options: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # the real one would send the name to a name server
    with pytest.raises(UserError, match=r"^http://nowhere\.invalid/v1: no such host .* check url and the network"):
        ask(mind(url="http://nowhere.invalid/v1"))


def test_a_server_that_takes_no_connections(mind, full):
    said = complaint(mind(url=full, connect_timeout=0.2, retries=1))
    assert said.startswith("no connection within connect_timeout: is the server running")


def test_a_server_that_is_too_slow(server, mind):
    server.always = hang
    began = time.monotonic()
    said = complaint(mind(timeout=0.2))
    assert said == "no answer within 0.2 s: raise timeout, or lower concurrency or max_tokens (tried 3 times)"
    assert time.monotonic() - began < 5


def test_a_server_that_sends_a_byte_now_and_then_is_too_slow(server, mind):
    server.always = drip
    assert complaint(mind(timeout=0.3, retries=0)).startswith("no answer within 0.3 s")


def test_an_endless_answer_is_not_read_to_its_end(server, mind, monkeypatch):
    monkeypatch.setattr(endpoint_client, "LARGEST_ANSWER", 2**20)
    server.always = flood
    assert complaint(mind(timeout=30)).startswith("its answer has more than 1 MB")


def test_a_rate_limit_that_stays(server, mind):
    server.always = status(429, '{"error": {"message": "Slow down."}}', Retry_After="0")
    assert complaint(mind()).startswith("429 Too Many Requests: Slow down.; lower rate or concurrency (tried 3 times)")
    assert len(server.seen) == 3


def test_a_rate_limit_that_sets_in_and_stays(server, mind):
    asked = mind(timeout=0.2, retries=0)
    ask(asked)
    server.always = status(429)
    assert complaint(asked).startswith("429 Too Many Requests; lower rate or concurrency (tried ")


def test_a_rate_limit_of_an_hour_is_said_at_once(server, mind):
    server.always = status(429, Retry_After="3600")
    assert complaint(mind()) == "429 Too Many Requests; it wants to be left alone for 3600 s: try again then"


def test_a_server_that_fails(server, mind):
    server.always = status(500, "<h1>no</h1>", "text/html")
    assert complaint(mind()) == "500 Internal Server Error; look into its log (tried 3 times)"


def test_a_server_that_fails_also_when_asked_for_one_sample_at_a_time(server, mind):
    server.always = status(500, "out of memory")
    assert complaint(mind(), n=4).startswith("500 Internal Server Error: out of memory; look into its log")


@pytest.mark.parametrize(
    ("code", "content", "line"),
    [
        (400, '{"error": {"message": "too long"}}', "400 Bad Request: too long; it refuses what it was asked"),
        (400, '{"error": "too long"}', "400 Bad Request: too long; it refuses what it was asked"),
        (400, '{"object": "error", "message": "too long"}', "400 Bad Request: too long; it refuses what it was asked"),
        (422, '{"detail": [{"loc": "n"}]}', '422 Unprocessable Entity: {"detail": [{"loc": "n"}]}; it refuses what'),
        (400, "x" * 5000, f"400 Bad Request: {'x' * 199}…; it refuses what it was asked"),
        (400, "two\nlines\x1b[2J", "400 Bad Request: two lines[2J; it refuses what it was asked"),
        (401, "", "401 Unauthorized; set key_env"),
        (403, "", "403 Forbidden; set key_env"),
        (404, '{"error": {"message": "no model"}}', "404 Not Found: no model; url is all before /chat/completions"),
        (418, "", "418 I'm a Teapot; it refuses what it was asked"),
        (302, "", "redirects to nowhere: set url accordingly, if you trust it"),
    ],
)
def test_what_will_not_pass_is_said_at_once(server, mind, code, content, line):
    server.always = status(code, content)
    assert complaint(mind()).startswith(line)
    assert len(server.seen) == 1


def test_a_wrong_key_is_named_by_where_it_comes_from(server, mind, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "abc123")
    server.always = status(401)
    assert complaint(mind(key_env="SOME_KEY")) == ("401 Unauthorized; check the key in the variable that key_env names")


def test_redirects_are_not_followed(server, mind):
    elsewhere = Server()
    try:
        server.always = status(307, Location=f"{elsewhere.url}/chat/completions")
        assert complaint(mind()).startswith(f"redirects to {elsewhere.url}/chat/completions: set url accordingly")
        assert elsewhere.seen == []
    finally:
        elsewhere.stop()


@pytest.mark.parametrize(
    ("behaviour", "line"),
    [
        (status(200, "<!doctype html><p>Hi"), "answers with a web page, not JSON (<!doctype html><p>Hi): is url the"),
        (status(200, ""), "answers what is not JSON, or half of it (nothing): look into its log"),
        (status(200, b"\xff\xfe\x00"), "answers what is not JSON, or half of it"),
        (status(200, completion(["text"])[:-20]), "answers what is not JSON, or half of it"),
        (status(200, "[" * 200_000), "answers what is not JSON, or half of it"),
        (status(200, "9" * 10_000), "answers what is not JSON, or half of it"),
        (status(200, "null"), "answers JSON without choices (null): is this a chat server?"),
        (status(200, '{"error": "busy"}'), 'answers JSON without choices ({"error": "busy"}): is this a chat server?'),
        (status(200, '{"choices": []}'), "answers JSON without choices"),
        (status(200, '{"choices": {"0": 1}}'), "answers JSON without choices"),
        (status(200, '{"choices": ["text"]}'), "answers with a choice that has no message"),
        (status(200, '{"choices": [{"text": "a"}]}'), "answers with a choice that has no message"),
        (status(200, completion([None])), "answers with a message whose content is no text"),
        (status(200, completion([7])), "answers with a message whose content is no text"),
        (status(200, completion([["a"]])), "answers with a message whose content is no text"),
        (promise_more, "breaks off its answer: look into its log"),
        (promise_less, "answers what is not JSON, or half of it"),
        (drop_half_way, "breaks off its answer: look into its log"),
        (drop, "breaks off its answer: look into its log"),
        (speak_otherwise, "does not speak HTTP as expected (220 mail.example ready): check url"),
    ],
)
def test_nonsense_is_one_line(server, mind, behaviour, line):
    server.always = behaviour
    assert complaint(mind()).startswith(line)
    assert len(server.seen) == 3


def test_a_server_without_tls_at_an_https_address(server, mind):
    asked = mind(url=server.url.replace("http:", "https:"))
    assert complaint(asked).startswith(
        "no TLS connection (WRONG_VERSION_NUMBER): does it want http:// and not https://?"
    )


# The end


def test_threads_end_with_a_call_that_fails_and_say_nothing(server, mind, caplog):
    server.script = [hang, hang, hang, status(400)]
    began = time.monotonic()
    with pytest.raises(UserError, match="400 Bad Request"):
        ask(mind(timeout=60, concurrency=4), prompts=8)
    while any(thread.name.startswith("endpoint-") for thread in threading.enumerate()):
        assert time.monotonic() - began < 10
        time.sleep(0.01)
    assert caplog.text == ""


SCRIPT = """
import sys
import numpy as np
from autotelic.minds.endpoint import EndpointConfig, EndpointMind
from autotelic.testing import check_mind
from autotelic.runs import workers

workers.exit_on_sigterm()
mind = EndpointMind(EndpointConfig(url=sys.argv[1], model="parrot", timeout=60, connect_timeout=60, back_off=60))
print("asking", flush=True)
try:
    mind.sample(["a", "b"], 1, np.random.default_rng(0))
except KeyboardInterrupt:
    sys.exit(130)
"""


def end_by(number: signal.Signals, url: str, waits: Callable[[], bool]) -> None:
    """A process that asks the server ends at once when it gets a signal while it waits."""
    with subprocess.Popen([sys.executable, "-c", SCRIPT, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        while not waits():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(number)
        began = time.monotonic()
        assert process.wait(timeout=30) == 128 + number
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("number", "behaviour"),
    [(signal.SIGINT, hang), (signal.SIGTERM, status(500)), (signal.SIGTERM, status(429, Retry_After="100"))],
    ids=["SIGINT-answer", "SIGTERM-retry", "SIGTERM-pause"],
)
def test_a_signal_ends_every_wait_at_once(server, number, behaviour):
    server.always = behaviour
    end_by(number, server.url, lambda: bool(server.seen))


def test_a_signal_ends_the_wait_for_a_connection_at_once(full):
    end_by(signal.SIGINT, full, lambda: True)
