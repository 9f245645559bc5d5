"""Requests to a JSON server that may be down, slow, busy or confused: paced, tried again, bounded, explained in a line.

The standard library's client is enough, so that no extra is needed: each thread has a connection of its own, kept open
between its requests, and a timer shuts the socket of a request that takes too long. That bounds it as a whole, also
where the server sends a byte now and then. Redirects are not followed, and proxies not used.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from autotelic.errors import UserError

T = TypeVar("T")

LARGEST_ANSWER = 16 * 2**20  # bytes; a text of 100,000 tokens has half a megabyte
LONGEST_BACK_OFF = 60.0  # seconds
LONGEST_PAUSE = 300.0  # seconds a server may ask us to wait (Retry-After) before we say so and stop

_log = logging.getLogger(__name__)


class NonsenseError(ValueError):
    """An answer is not what was asked for: `what` is said of the server, `advice` to the user."""

    def __init__(self, what: str, advice: str = "look into its log") -> None:
        super().__init__(what)
        self.what, self.advice = what, advice


class Trouble(Exception):
    """What went wrong with one request, and what can be done about it."""

    def __init__(self, line: str, *, again: bool = True, status: int | None = None, wait: float = 0.0) -> None:
        super().__init__(line)
        self.again = again  # whether it may pass
        self.status = status
        self.wait = wait  # seconds that the server asked for


class Halted(Exception):
    """The call that a thread works for is over."""


class Halt:
    """Ends what the threads of one call are doing: their waits, and the sockets they wait for."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._sockets: set[socket.socket] = set()

    def set(self) -> None:
        with self._guard:
            self._over.set()
            for connected in self._sockets:
                _shut(connected)

    def wait(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise Halted

    @contextlib.contextmanager
    def watch(self, connected: socket.socket, seconds: float) -> Iterator[threading.Event]:
        """Shuts the socket when the time is over or the call is. Yields what says that it was the time."""
        late = threading.Event()

        def end() -> None:
            late.set()
            _shut(connected)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        with self._guard:
            if self._over.is_set():
                raise Halted
            self._sockets.add(connected)
        try:
            timer.start()
            yield late
        finally:
            timer.cancel()
            with self._guard:
                self._sockets.discard(connected)


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it was closed already
        # The plain socket's own: that of a TLS socket takes away what the thread that reads is working with.
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


class Pacer:
    """Says when requests may be sent: so many a second, over all threads, and none during a pause."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._spacing = 1 / rate if rate else 0.0
        self._clock = clock
        self._guard = threading.Lock()
        self._next = clock()

    def turn(self) -> float:
        """0 if a request may be sent now, which takes the turn; else the seconds after which to ask again."""
        with self._guard:
            now = self._clock()
            if now < self._next:
                return self._next - now
            self._next = now + self._spacing
            return 0.0

    def pause(self, seconds: float) -> None:
        with self._guard:
            self._next = max(self._next, self._clock() + seconds)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Wire:
    """One thread's connection to the server, opened when it is needed."""

    def __init__(self, connection: http.client.HTTPConnection, timeout: float, halt: Halt) -> None:
        self._connection = connection
        self._timeout = timeout
        self.halt = halt

    def close(self) -> None:
        self._connection.close()

    def exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        if self._connection.sock is not None:
            try:
                return self._exchange(self._connection.sock, method, path, body, headers)
            except ConnectionError:
                self.close()  # servers close connections that have rested for a while, which is no failure
        return self._exchange(self._connect(), method, path, body, headers)

    def _connect(self) -> socket.socket:
        try:
            self._connection.connect()
        except TimeoutError as error:
            said = "no connection within connect_timeout: is the server running, and does a firewall let us through?"
            raise Trouble(said) from error
        assert self._connection.sock is not None
        self._connection.sock.settimeout(self._timeout)
        return self._connection.sock

    def _exchange(
        self, connected: socket.socket, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Reply:
        with self.halt.watch(connected, self._timeout) as late:
            try:
                self._connection.request(method, path, body, headers)
                reply = _read_reply(self._connection.getresponse())
            except (OSError, http.client.HTTPException):
                if late.is_set():
                    raise TimeoutError from None
                raise
        if late.is_set():  # a body without a length seems to end where the socket was shut
            raise TimeoutError
        return reply


def _read_reply(response: http.client.HTTPResponse) -> Reply:
    body = response.read(LARGEST_ANSWER + 1)
    if len(body) > LARGEST_ANSWER:
        raise Trouble(f"its answer has more than {LARGEST_ANSWER // 2**20} MB: lower max_tokens, or look into its log")
    if response.length:  # what is missing of the length it promised, about which `read` says nothing
        raise http.client.IncompleteRead(body, response.length)
    return Reply(response.status, response.headers, body)


class Client:
    """Asks one server. Shared by all threads."""

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        timeout: float,
        connect_timeout: float,
        retries: int,
        back_off: float,
        rate: float,
    ) -> None:
        self.url = url.rstrip("/")
        self._parts = urlsplit(self.url)
        self._tls = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._timeout, self._connect_timeout, self._retries, self._back_off = (
            timeout,
            connect_timeout,
            retries,
            back_off,
        )
        self._key = key
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "autotelic"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._pacer = Pacer(rate)
        self._answered: float | None = None  # when the server last gave a good answer
        self._warned = ""

    def wire(self, halt: Halt) -> Wire:
        host, port = self._parts.hostname or "", self._parts.port
        if self._tls is None:
            connection = http.client.HTTPConnection(host, port, timeout=self._connect_timeout)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=self._connect_timeout, context=self._tls)
        return Wire(connection, self._timeout, halt)

    def ask(
        self,
        wire: Wire,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        read: Callable[[Any], T],
        expected: Collection[int] = (),
    ) -> T:
        """What `read` makes of the answer. Trouble with one of the `expected` statuses is raised as it is."""
        data = None if body is None else json.dumps(body).encode()
        tries = failures = 0
        while True:
            while wait := self._pacer.turn():
                wire.halt.wait(wait)
            tries += 1
            try:
                answer = self._exchange(wire, method, path, data, read)
            except Trouble as trouble:
                wire.close()  # what is left of a bad answer must not be taken for the next one
                wire.halt.wait(0)
                if trouble.status in expected:
                    raise
                failures += not (trouble.status == 429 and self._serves_others())
                if not trouble.again or failures > self._retries:
                    raise UserError(self._last_line(trouble, tries)) from trouble
                self._wait_to_retry(wire.halt, trouble, tries)
            else:
                self._answered, self._warned = time.monotonic(), ""
                return answer

    def _serves_others(self) -> bool:
        """Whether a good answer came of late. A request that is sent away meanwhile has only to wait for its turn."""
        return self._answered is not None and time.monotonic() - self._answered < self._timeout

    def shown(self, text: str, limit: int = 200) -> str:
        """Foreign text as part of a line. Some servers repeat the key they were given: it is taken out."""
        return one_line(text.replace(self._key, "***") if self._key else text, limit)

    def _wait_to_retry(self, halt: Halt, trouble: Trouble, tries: int) -> None:
        self._pacer.pause(trouble.wait)  # for all threads
        if self._warned != str(trouble):
            self._warned = str(trouble)
            _log.warning("%s: %s; trying again", self.url, trouble)
        step = min(LONGEST_BACK_OFF, self._back_off * 2.0 ** min(tries - 1, 20))
        halt.wait(step * random.uniform(0.5, 1.0))  # threads that failed together do not come back together

    def _last_line(self, trouble: Trouble, tries: int) -> str:
        line = f"{self.url}: {trouble}"
        if tries > 1:
            line += f" (tried {tries} times)"
        return line

    def _exchange(self, wire: Wire, method: str, path: str, data: bytes | None, read: Callable[[Any], T]) -> T:
        try:
            reply = wire.exchange(method, self._parts.path + path, data, self._headers)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        if not 200 <= reply.status < 300:
            raise self._refused(reply)
        try:
            return read(_parsed(reply.body))
        except NonsenseError as error:
            shown = self.shown(reply.body.decode("utf-8", "replace"), 100) or "nothing"
            raise Trouble(f"{error.what} ({shown}): {error.advice}") from error

    def _unreachable(self, error: OSError | http.client.HTTPException) -> Trouble:
        match error:
            case ConnectionRefusedError():
                return Trouble("connection refused: is the server running?")
            case TimeoutError():
                advice = "raise timeout, or lower concurrency or max_tokens"
                return Trouble(f"no answer within {self._timeout:g} s: {advice}")
            case socket.gaierror():
                return Trouble(f"no such host ({error.strerror}): check url and the network")
            case ssl.SSLCertVerificationError():
                advice = "name a file with its issuer's in SSL_CERT_FILE"
                return Trouble(f"its certificate is not trusted ({error.verify_message}): {advice}", again=False)
            case ssl.SSLError():
                return Trouble(f"no TLS connection ({error.reason or error}): does it want http:// and not https://?")
            case ConnectionError() | http.client.IncompleteRead():
                return Trouble("breaks off its answer: look into its log")
            case http.client.HTTPException():
                said = self.shown(str(error), 100) or type(error).__name__
                return Trouble(f"does not speak HTTP as expected ({said}): check url")
            case _:
                return Trouble(f"not reached ({error.strerror or error}): check url and the network")

    def _refused(self, reply: Reply) -> Trouble:
        status = reply.status
        said = self.shown(_message(reply.body))
        reason = f"{status} {http.client.responses.get(status, '')}".strip() + (f": {said}" if said else "")
        if 300 <= status < 400:
            target = self.shown(reply.headers.get("Location") or "nowhere")
            return Trouble(f"redirects to {target}: set url accordingly, if you trust it", again=False, status=status)
        if status in (429, 503):
            wait = _retry_after(reply.headers.get("Retry-After"))
            if wait > LONGEST_PAUSE:
                return Trouble(f"{reason}; it wants to be left alone for {wait:.0f} s: try again then", again=False)
            advice = "lower rate or concurrency" if status == 429 else "is it still loading?"
            return Trouble(f"{reason}; {advice}", status=status, wait=wait)
        if status == 408 or status >= 500:
            return Trouble(f"{reason}; look into its log", status=status)
        if status in (401, 403):
            advice = "check the key in the variable that key_env names" if self._key else "set key_env"
        elif status == 404:
            advice = "url is all before /chat/completions (often it ends in /v1), model a name that the server knows"
        else:
            advice = "it refuses what it was asked"
        return Trouble(f"{reason}; {advice}", again=False, status=status)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        if body.lstrip()[:1] == b"<":
            advice = "is url the address of its API? That often ends in /v1"
            raise NonsenseError("answers with a web page, not JSON", advice) from error
        raise NonsenseError("answers what is not JSON, or half of it") from error


def _message(body: bytes) -> str:
    """What an error answer says: OpenAI's error.message, one of its relatives, or the text itself if it is no page."""
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.lstrip()[:1] == "<" else text
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    return found if isinstance(found, str) else text


def _retry_after(value: str | None) -> float:
    """Seconds to wait: the header holds them or a date; one that holds neither asks for nothing."""
    if value is None:
        return 0.0
    if re.fullmatch(r"\s*\d{1,9}(\.\d*)?\s*", value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def one_line(text: str, limit: int = 200) -> str:
    """The beginning of a text, in one line, without what a terminal would obey."""
    words = " ".join(text[:10_000].split())
    text = "".join(character for character in words if character.isprintable())
    return text if len(text) <= limit else text[: limit - 1] + "…"
