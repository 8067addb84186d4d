"""Serves `app.Service` on one address from several pre-forked workers; standard library only.

    python serve.py --counts counts.json --ledger budget.ledger --budget 1.0 --epsilon 0.01 --workers 2

The parent opens the socket, forks the workers and starts a new one whenever one ends, however it ended. SIGTERM
and Ctrl-C stop everything after the requests under way. A small HTTP/1.1 server, meant to stand behind a real one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import pathlib
import signal
import socket
import sys
import time
from typing import Any

from app import LARGEST_BODY, Service, load_counts, log

from dpcore.ledger import Ledger

LONGEST_HEAD = 16384
SECONDS_IDLE = 60.0
SECONDS_BETWEEN_RESTARTS = 0.05
STATUS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 413: "Content Too Large"}
STATUS |= {500: "Internal Server Error", 503: "Service Unavailable"}


async def _exchange(app: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """One request and its answer; False ends the connection."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS_IDLE)
        request, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = request.split(" ")
        headers = dict(line.lower().split(":", 1) for line in lines if line)
        # Two lengths, or a length in a form that the server in front reads differently, splits requests apart.
        digits = headers.get("content-length", "0").strip()
        lengths = sum(line.lower().startswith("content-length:") for line in lines)
        if "transfer-encoding" in headers or lengths > 1 or not digits.isdecimal():
            return False
        length = int(digits)
        if length > LARGEST_BODY:
            return False
        body = await asyncio.wait_for(reader.readexactly(length), SECONDS_IDLE) if length else b""
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError, ValueError):
        return False

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status = message["status"]
            parts = [f"HTTP/1.1 {status} {STATUS.get(status, '')}\r\n".encode()]
            parts += [name + b": " + value + b"\r\n" for name, value in message["headers"]]
            writer.write(b"".join(parts) + b"\r\n")
        else:
            writer.write(message.get("body", b""))

    scope = {"type": "http", "method": method, "path": target.partition("?")[0], "http_version": "1.1"}
    await app(scope, receive, send)
    await writer.drain()
    return version == "HTTP/1.1" and headers.get("connection", "").strip() != "close"


async def _worker(app: Service, listener: socket.socket, parent: int) -> None:
    stopping, open_tasks = asyncio.Event(), set()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        open_tasks.add(task)
        try:
            while not stopping.is_set() and await _exchange(app, reader, writer):
                pass
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            open_tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    server = await asyncio.start_server(connection, sock=listener, limit=LONGEST_HEAD)
    while not stopping.is_set() and os.getppid() == parent:  # never outlive the parent
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stopping.wait(), 0.5)
    server.close()
    if open_tasks:
        await asyncio.wait(open_tasks, timeout=1.0)
    for task in list(open_tasks):
        task.cancel()


def _start_worker(app: Service, listener: socket.socket) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        asyncio.run(_worker(app, listener, parent))
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve(app: Service, listener: socket.socket, workers: int) -> None:
    """Keep `workers` workers running until SIGTERM or Ctrl-C."""
    stop = False

    def on_signal(number: int, frame: object) -> None:
        nonlocal stop
        stop = True

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    running: set[int] = set()
    while not stop:
        while len(running) < workers:
            running.add(_start_worker(app, listener))
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            ended, status = 0, 0
        if ended in running:
            running.discard(ended)
            log(event="worker ended", ended=ended, code=os.waitstatus_to_exitcode(status))  # -9: killed
        time.sleep(SECONDS_BETWEEN_RESTARTS)
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    for pid in running:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", required=True, help="JSON object of private counts")
    parser.add_argument("--ledger", required=True, type=pathlib.Path, help="ledger file, made if missing")
    parser.add_argument("--budget", type=float, help="total epsilon, for a new ledger")
    parser.add_argument("--epsilon", required=True, type=float, help="epsilon of one release")
    parser.add_argument("--lease", type=int, default=1, help="releases a worker pays for at once")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    arguments = parser.parse_args()
    if arguments.ledger.exists():
        ledger = Ledger(arguments.ledger)
    elif arguments.budget is not None:
        ledger = Ledger.create(arguments.ledger, epsilon=arguments.budget, label="counts")
    else:
        parser.error("--budget is needed for a new ledger")
    app = Service(
        counts=load_counts(arguments.counts), ledger=ledger, epsilon=arguments.epsilon, lease=arguments.lease
    )
    listener = socket.create_server((arguments.host, arguments.port), backlog=1024)
    listener.setblocking(False)
    print(f"listening on http://{arguments.host}:{listener.getsockname()[1]}", flush=True)
    serve(app, listener, arguments.workers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
