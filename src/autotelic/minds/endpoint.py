"""A mind behind an OpenAI-compatible chat server (vLLM, llama.cpp, Ollama): proposes and solves, does not learn."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from autotelic.errors import UserError
from autotelic.minds.base import FrozenMind, Generation, MindConfig, Prompt, turns
from autotelic.minds.config import LearnerConfig
from autotelic.minds.endpoint_client import Client, Halt, Halted, NonsenseError, Trouble, Wire, one_line

OWN_FIELDS = ("model", "messages", "n", "seed", "temperature", "max_tokens", "stream")  # of a request; not for `extra`
# What servers answer that will not give several samples at once: llama.cpp says 500, others 400, 422 or 501.
ONE_AT_A_TIME = (400, 422, 500, 501)


@dataclass
class EndpointConfig(MindConfig):
    """Where the server is and how much patience it gets."""

    url: str | None = None  # all that comes before /chat/completions: http://127.0.0.1:8000/v1
    model: str | None = None  # as the server calls it; not needed if it serves only one
    key_env: str | None = None  # name of the environment variable that holds the API key; never the key itself
    system: str | None = None  # said before every prompt
    timeout: float = 300.0  # seconds a request may take, with the time it waits in the server's queue
    connect_timeout: float = 10.0  # seconds until there is a connection
    retries: int = 5  # of a request that failed in a way that may pass
    back_off: float = 1.0  # seconds before the first retry, doubled for each further one
    rate: float = 0.0  # requests a second at most; 0 is no limit
    concurrency: int = 4  # requests at once; what the server does in parallel
    extra: dict[str, Any] = field(default_factory=dict)  # more fields of a request: {top_p: 0.9}
    learner: LearnerConfig = field(default_factory=lambda: LearnerConfig(enabled=False))  # of what does not learn

    # A request takes seconds and may be paid for: a suite is not asked whole, and a step that is done is kept.
    beside: ClassVar[Mapping[str, Any]] = {"evaluate_tasks": 120, "checkpoint": {"every": 1}}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learner not in (LearnerConfig(enabled=False), LearnerConfig()):  # the latter of runs that are older
            raise UserError("learner is set, but a mind behind a server does not learn: leave it out")
        _check_url(self.url)
        if self.key_env is not None and not re.fullmatch(r"[A-Za-z_]\w*", self.key_env):
            raise UserError("key_env must be the name of an environment variable that holds the API key, not the key")
        for name, low, high in (
            ("timeout", 0.001, 86400),
            ("connect_timeout", 0.001, 3600),
            ("retries", 0, 100),
            ("back_off", 0, 60),
            ("rate", 0, 1e6),
            ("concurrency", 1, 1024),
        ):
            if not low <= getattr(self, name) <= high:
                raise UserError(f"{name} is {getattr(self, name)}; it must be {low} to {high:g}")
        if own := sorted(set(self.extra) & set(OWN_FIELDS)):
            raise UserError(f"extra sets {', '.join(own)}, which this player sets itself: take it out")
        try:
            json.dumps(self.extra, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(f"extra holds what JSON does not: {error}") from error


def _check_url(url: str | None) -> None:
    if url is None:
        raise UserError("url is not set: where is the server? For instance http://127.0.0.1:8000/v1")
    try:
        parts = urlsplit(url)
        secret = parts.username is not None or parts.password is not None
        (parts.hostname or "").encode("idna")
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, brackets that do not close, a host with an empty or endless label
        sound, secret = False, "@" in url
    if secret or "?" in url or "#" in url:  # and it is not repeated here
        raise UserError("url holds more than an address: put a key into an environment variable and set key_env to it")
    if not sound or not re.fullmatch(r"[!-~]+", url):
        raise UserError(f"url is {one_line(url)!r}; it must be like http://127.0.0.1:8000/v1")


@dataclass(frozen=True)
class Job:
    """A request: `count` samples, of which the first has this place among all."""

    first: int
    count: int


class EndpointMind(FrozenMind):
    """Asks a server. Seeds are sent along, but whether equal ones give equal texts is up to the server."""

    name: ClassVar[str] = "endpoint"
    Config = EndpointConfig
    exact: ClassVar[bool] = False
    converses: ClassVar[bool] = True
    config: EndpointConfig

    def __init__(self, config: EndpointConfig) -> None:
        super().__init__(config)
        self._client = Client(
            config.url or "",
            _key(config.key_env),
            timeout=config.timeout,
            connect_timeout=config.connect_timeout,
            retries=config.retries,
            back_off=config.back_off,
            rate=config.rate,
        )
        self._model = config.model
        self._several = True  # whether the server gives several samples at once, as far as is known

    def sample(
        self,
        prompts: Sequence[Prompt],
        n: int,
        rng: np.random.Generator,
        *,
        greedy: bool = False,
        max_tokens: int | None = None,
    ) -> list[Generation]:
        total = len(prompts) * n
        # A seed a sample, whichever request brings it: what is sent does not depend on the order of arrival.
        seeds = [int(seed) for seed in rng.integers(0, 2**31 - 1, size=total)]
        if total == 0:
            return []
        settings = {
            **self.config.extra,
            "model": self._model or self._find_model(),
            "temperature": 0.0 if greedy else self.config.temperature,
            "max_tokens": max_tokens or self.config.max_tokens,
        }

        def complete(job: Job, wire: Wire) -> list[Generation]:
            body = {**settings, "messages": self._messages(prompts[job.first // n]), "seed": seeds[job.first]}
            return self._complete(body, job.count, wire)

        size = n if self._several else 1
        return self._gather([Job(first, size) for first in range(0, total, size)], total, complete)

    def _messages(self, prompt: Prompt) -> list[dict[str, str]]:
        before = [] if self.config.system is None else [{"role": "system", "content": self.config.system}]
        return [*before, *turns(prompt)]

    def _complete(self, body: dict[str, Any], count: int, wire: Wire) -> list[Generation]:
        """Up to `count` samples; none if the server seems to mind being asked for several."""
        ask = self._client.ask
        if count == 1:
            return ask(wire, "POST", "/chat/completions", body, _read_choices)[:1]
        try:
            body = {**body, "n": count}
            return ask(wire, "POST", "/chat/completions", body, _read_choices, ONE_AT_A_TIME)[:count]
        except Trouble:
            return []

    def _gather(
        self, jobs: Sequence[Job], total: int, complete: Callable[[Job, Wire], list[Generation]]
    ) -> list[Generation]:
        """Does the jobs in threads; the results are in the order of the jobs, whatever the order of arrival.

        The threads are daemons, for which no exit of this process waits, and an error or a signal that ends the wait
        here ends theirs.
        """
        found: dict[int, Generation] = {}
        todo: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[Job, list[Generation]] | BaseException] = queue.SimpleQueue()
        halt = Halt()

        def work() -> None:
            with contextlib.closing(self._client.wire(halt)) as wire:
                try:
                    while (job := todo.get()) is not None:
                        done.put((job, complete(job, wire)))
                except Halted:
                    pass
                except BaseException as error:  # raised again where it is waited for
                    done.put(error)

        threads = [
            threading.Thread(target=work, name=f"endpoint-{number}", daemon=True)
            for number in range(min(self.config.concurrency, total))
        ]
        try:
            for job in jobs:
                todo.put(job)
            for thread in threads:
                thread.start()
            while len(found) < total:
                result = done.get()
                if isinstance(result, BaseException):
                    raise result
                job, generations = result
                found.update(enumerate(generations, job.first))
                if len(generations) < job.count:
                    self._several = False
                    for at in range(job.first + len(generations), job.first + job.count):
                        todo.put(Job(at, 1))
        finally:
            halt.set()
            for _ in threads:
                todo.put(None)
        return [found[at] for at in range(total)]

    def _find_model(self) -> str:
        with contextlib.closing(self._client.wire(Halt())) as wire:
            known = self._client.ask(wire, "GET", "/models", None, _read_models)
        if len(known) != 1:
            shown = self._client.shown(", ".join(known)) or "none"
            raise UserError(f"{self._client.url}: serves {len(known)} models ({shown}): set model to the one to play")
        self._model = known[0]
        return known[0]


def _key(variable: str | None) -> str | None:
    """The API key. No error repeats it, nor the variable's name, which might be a key put into the wrong place."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError("the environment variable that key_env names is not set or empty: export it with the API key")
    if not re.fullmatch(r"[!-~]+", key):
        raise UserError("the environment variable that key_env names holds what cannot be an API key: spaces or worse")
    return key


def _read_models(answer: Any) -> list[str]:
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise NonsenseError("does not list its models", "check url, or set model")
    return sorted(str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry)


def _read_choices(answer: Any) -> list[Generation]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices:
        raise NonsenseError("answers JSON without choices", "is this a chat server?")
    return [_read_choice(choice) for choice in choices]


def _read_choice(choice: Any) -> Generation:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise NonsenseError("answers with a choice that has no message", "is this a chat server?")
    text, reason = message.get("content"), choice.get("finish_reason")
    # An answer that was withheld, or one that ended while the model still thought, is a bad answer, but no error.
    instead = any(isinstance(message.get(name), str) for name in ("refusal", "reasoning", "reasoning_content"))
    if text is None and (instead or reason in ("content_filter", "length")):
        text = ""
    if not isinstance(text, str):
        raise NonsenseError("answers with a message whose content is no text")
    # JSON can hold halves of characters, which no file or database takes.
    return Generation(text.encode("utf-8", "replace").decode(), finished=reason != "length")
