"""A server on this machine that speaks as OpenAI's does, and answers or misbehaves as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        self.act({})

    def do_POST(self) -> None:
        self.act(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def act(self, body: dict[str, Any]) -> None:
        server = self.server
        with server.guard:
            server.seen.append((self.command, self.path, body, dict(self.headers), self.client_address[1]))
            server.times.append(time.monotonic())
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
            behaviour = server.script.pop(0) if server.script else server.always
        try:
            behaviour(self, body)
        except OSError:
            self.close_connection = True  # the client went away
        finally:
            with server.guard:
                server.busy -= 1

    def reply(self, status: int, content: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Plays `script`, a behaviour a request, and then behaves `always` in the same way."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script: list[Behaviour] = []
        self.always: Behaviour = answer
        self.models = ["parrot"]
        self.guard = threading.Lock()
        self.seen: list[tuple[str, str, dict[str, Any], dict[str, str], int]] = []
        self.times: list[float] = []
        self.busy = self.busiest = 0
        self.over = threading.Event()  # lets behaviours that wait end with the test
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body, _, _ in self.seen]

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients go away in the midst of things here

    def stop(self) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


def completion(texts: list[Any], reason: str = "stop") -> bytes:
    choices = [
        {"index": at, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        for at, text in enumerate(texts)
    ]
    return json.dumps({"id": "1", "object": "chat.completion", "model": "parrot", "choices": choices}).encode()


def answer(handler: Handler, body: dict[str, Any]) -> None:
    """A server that keeps to the contract: `n` samples that depend on the prompt and the seed."""
    if handler.path == "/v1/models":
        models = [{"id": name, "object": "model"} for name in handler.server.models]
        handler.reply(200, json.dumps({"object": "list", "data": models}).encode())
        return
    assert handler.path == "/v1/chat/completions"
    said = f"{body['messages'][-1]['content']}/{body['seed']}"
    handler.reply(200, completion([f"{said}/{at}" for at in range(body.get("n", 1))]))
