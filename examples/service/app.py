"""A service that releases noisy counts within a budget: a plain ASGI application.

    GET  /health     is this worker able to answer
    GET  /budget     what was spent and what is left
    POST /release    {"count": "smokers"} -> one noisy count, paid for before it is drawn
    POST /account    {"mechanisms": [{"mechanism": "laplace", "epsilon": 0.1, "copies": 20}], "delta": 1e-6}

Run it with ``serve.py`` beside it (standard library only), or with any ASGI server:
``DPCORE_COUNTS=counts.json DPCORE_LEDGER=budget.ledger DPCORE_EPSILON=0.01 uvicorn --factory app:create_app``.

Why it is safe to kill at any moment: a release is charged to the ledger file, which refuses to overspend and is on
the disk when the charge returns; only then is noise drawn, from a stream that no other process shares. A crash in
between loses budget, never privacy. With ``lease`` > 1 a worker charges for that many releases at once, and the
disk is not asked at every request; what a crashed worker had not used of its lease stays spent.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
from typing import Any

from dpcore import accounting
from dpcore.ledger import Ledger, LedgerError, OverspentError
from dpcore.mechanisms import DiscreteLaplace

LARGEST_BODY = 65536
# Questions that are answered within a fraction of a second whatever their parameters, Gaussians in microseconds. A
# service must not compute for minutes.
MECHANISMS = ("laplace", "gaussian", "randomized_response", "pure")
MOST_MECHANISMS = 20


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Service:
    """The ASGI application. Make it before the fork or after; it opens nothing but the ledger file, per call."""

    def __init__(self, *, counts: dict[str, int], ledger: Ledger, epsilon: float, lease: int = 1) -> None:
        # All that can be wrong with the private data is found now, before there is a request to leak it to.
        if not all(type(value) is int and abs(value) < 2**62 for value in counts.values()):
            raise ValueError("every count must be an integer below 2**62")
        if not isinstance(lease, int) or not lease >= 1:
            raise ValueError(f"lease must be an integer >= 1, got {lease!r}")
        self._counts = counts
        self._ledger = ledger
        self._mechanism = DiscreteLaplace(epsilon=epsilon, sensitivity=1)
        self._epsilon = float(epsilon)
        self._lease = lease
        self._paid = (0, 0, 0)  # number of the charge, releases it paid for, releases made
        self._paying = asyncio.Lock()
        self._routes = {
            ("GET", "/health"): self._health,
            ("GET", "/budget"): self._budget,
            ("POST", "/release"): self._release,
            ("POST", "/account"): self._account,
        }

    # ------------------------------------------------------------------ answers

    async def _health(self, body: Any) -> dict[str, Any]:
        await asyncio.to_thread(lambda: self._ledger.spent)  # a worker that cannot read the ledger is not healthy
        return {"status": "ok", "worker": os.getpid()}

    async def _budget(self, body: Any) -> dict[str, Any]:
        return (await asyncio.to_thread(lambda: self._ledger.spent)).to_dict()

    async def _release(self, body: Any) -> dict[str, Any]:
        name = body.get("count")
        if not isinstance(name, str) or name not in self._counts:
            raise Refusal(404, f"count must be one of {', '.join(sorted(self._counts))}")
        charge, part = await self._pay()
        value = self._mechanism.release(self._counts[name])
        return {"count": name, "value": value, "epsilon": self._epsilon, "charge": charge, "part": part}

    async def _pay(self) -> tuple[int, int]:
        """Number of the ledger's charge that pays for one release, and which of its releases this is."""
        async with self._paying:
            charge, paid, made = self._paid
            if made == paid:
                try:
                    charge, paid, made = await asyncio.to_thread(self._charge, self._lease), self._lease, 0
                except OverspentError:
                    if self._lease == 1:
                        raise Refusal(403, "the budget is spent") from None
                    try:
                        charge, paid, made = await asyncio.to_thread(self._charge, 1), 1, 0
                    except OverspentError:
                        raise Refusal(403, "the budget is spent") from None
            self._paid = charge, paid, made + 1
            return charge, made + 1

    def _charge(self, releases: int) -> int:
        # The product may have been rounded down; a charge may not.
        total = self._epsilon if releases == 1 else math.nextafter(releases * self._epsilon, math.inf)
        return self._ledger.charge(epsilon=total, label="counts", details={"releases": releases}).number

    async def _account(self, body: Any) -> dict[str, Any]:
        rows, delta = body.get("mechanisms"), body.get("delta")
        if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_MECHANISMS:
            raise Refusal(400, f"mechanisms must be a list of 1 to {MOST_MECHANISMS} objects")
        if not all(isinstance(row, dict) and row.get("mechanism") in MECHANISMS for row in rows):
            raise Refusal(400, f"mechanism must be one of {', '.join(MECHANISMS)}")
        data = {"format": "dpcore.PrivacyLoss", "version": 1, "mechanisms": rows}
        try:
            bounds = await asyncio.to_thread(lambda: accounting.PrivacyLoss.from_dict(data).epsilon(delta))
        except (TypeError, ValueError) as error:  # the client's own numbers: nothing private in the message
            raise Refusal(400, str(error)) from None
        # JSON has no infinity; null says that no epsilon will do.
        lower, upper = (end if math.isfinite(end) else None for end in (bounds.lower, bounds.upper))
        return {"delta": delta, "epsilon_lower": lower, "epsilon_upper": upper}

    # ------------------------------------------------------------------ ASGI

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        start = time.perf_counter()
        try:
            answer = self._routes.get((scope["method"], scope["path"]))
            if answer is None:
                raise Refusal(404, "no such page")
            status, reply = 200, await answer(await _body(receive))
        except Refusal as refusal:
            status, reply = refusal.status, {"error": str(refusal)}
        except (LedgerError, OSError):
            status, reply = 503, {"error": "the ledger cannot be used now; nothing was released"}
        except Exception as error:
            # The kind of the error only: its text could quote a value.
            log(level="error", kind=type(error).__name__)
            status, reply = 500, {"error": "internal error; nothing was released"}
        payload = json.dumps(reply, allow_nan=False).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(payload)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": payload})
        milliseconds = round(1000 * (time.perf_counter() - start), 3)
        path = scope["path"] if status != 404 else None  # what a stranger typed is not logged
        log(path=path, status=status, milliseconds=milliseconds, charge=reply.get("charge"))


async def _body(receive: Any) -> dict[str, Any]:
    data = b""
    while True:
        message = await receive()
        data += message.get("body", b"")
        if len(data) > LARGEST_BODY:
            raise Refusal(413, f"the body must not exceed {LARGEST_BODY} bytes")
        if not message.get("more_body"):
            break
    if not data:
        return {}
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body must be JSON") from None
    if not isinstance(parsed, dict):
        raise Refusal(400, "the body must be a JSON object")
    return parsed


def log(**fields: Any) -> None:
    """One JSON line. Only public facts are ever passed: no value, no noise, no body."""
    line = {"time": round(time.time(), 3), "worker": os.getpid(), **fields}
    sys.stderr.write(json.dumps(line) + "\n")


def load_counts(path: str) -> dict[str, int]:
    """The private counts: a JSON object of names and integers."""
    with open(path, encoding="utf-8") as file:
        counts = json.load(file)
    if not isinstance(counts, dict):
        raise ValueError(f"{path} must hold a JSON object")
    return counts


def create_app() -> Service:
    """For ASGI servers: settings come from the environment."""
    return Service(
        counts=load_counts(os.environ["DPCORE_COUNTS"]),
        ledger=Ledger(os.environ["DPCORE_LEDGER"]),
        epsilon=float(os.environ["DPCORE_EPSILON"]),
        lease=int(os.environ.get("DPCORE_LEASE", "1")),
    )
