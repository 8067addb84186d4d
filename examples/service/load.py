"""Load on a service on this machine: many connections, workers killed in the middle, and what must still hold.

    python load.py --requests 20000 --connections 16 --kills 10

Starts ``serve.py`` on a free loopback port with a new ledger, sends requests (1 in 10 asks for accounting, the
rest for releases), kills workers with SIGKILL while it does, and then checks every answer against the ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from dpcore.ledger import Ledger

HERE = pathlib.Path(__file__).resolve().parent
# Noise so wide that two of n draws are alike with probability below n^2 / 8e14: repeated noise would be seen.
EPSILON = 1e-14
SECRET = 987_654_321_012


@dataclasses.dataclass
class Tally:
    """What the clients saw."""

    values: list[int] = dataclasses.field(default_factory=list)
    paid: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    statuses: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    seconds: list[float] = dataclasses.field(default_factory=list)
    broken: int = 0  # connections lost with a request under way
    left: int = 0  # requests still to be sent


async def _client(port: int, tally: Tally, release: bytes, account: bytes) -> None:
    reader = writer = None
    while tally.left > 0:
        tally.left -= 1
        request = account if tally.left % 10 == 0 else release
        start = time.perf_counter()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            reply = json.loads(await reader.readexactly(length))
        except (ConnectionError, asyncio.IncompleteReadError):
            tally.broken += 1
            if writer is not None:
                writer.close()
            writer = None
            await asyncio.sleep(0.01)
            continue
        tally.seconds.append(time.perf_counter() - start)
        status = int(head[9:12])
        tally.statuses[status] += 1
        if status == 200 and request is release:
            tally.values.append(reply["value"])
            tally.paid.append((reply["charge"], reply["part"]))
    if writer is not None:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def _workers(parent: int) -> list[int]:
    return [int(p) for p in pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


async def _killer(parent: int, kills: int, tally: Tally, total: int) -> int:
    """Kill a random worker each time another share of the first half of the requests is through."""
    done = 0
    for step in range(1, kills + 1):
        while tally.left > total - total * step // (2 * kills + 2) and tally.left > 0:
            await asyncio.sleep(0.002)
        if workers := _workers(parent):
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(workers), signal.SIGKILL)  # no privacy hangs on this choice
                done += 1
    return done


def _request(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


def _memory(parent: int) -> int:
    """Largest resident memory of a worker, in KiB."""
    lines = [pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() for pid in _workers(parent)]
    return max((int(line.split()[1]) for part in lines for line in part if line.startswith("VmRSS")), default=0)


async def _early_memory(parent: int, tally: Tally, total: int) -> int:
    """Memory a while after the last worker was killed, to compare with the end: a leak shows as growth."""
    while tally.left > total - total * 6 // 10:
        await asyncio.sleep(0.01)
    return _memory(parent)


async def _load(port: int, parent: int, requests: int, connections: int, kills: int) -> tuple[Tally, int, int]:
    tally = Tally(left=requests)
    release = _request("/release", {"count": "people"})
    rows = [{"mechanism": "gaussian", "sigma": 50.0, "sensitivity": 1.0, "copies": 1000}]
    account = _request("/account", {"mechanisms": rows, "delta": 1e-6})
    clients = [_client(port, tally, release, account) for _ in range(connections)]
    *_, killed, early = await asyncio.gather(
        *clients, _killer(parent, kills, tally, requests), _early_memory(parent, tally, requests)
    )
    return tally, killed, early


def run(
    folder: pathlib.Path,
    *,
    requests: int,
    connections: int,
    kills: int,
    workers: int = 2,
    lease: int = 1,
    budget_releases: int | None = None,
) -> dict[str, object]:
    """Run the load, check the promises, and return what was measured."""
    (folder / "counts.json").write_text(json.dumps({"people": SECRET}))
    ledger_file, log_file = folder / "budget.ledger", folder / "log.jsonl"
    budget = EPSILON * (budget_releases or 10 * requests)
    command = [sys.executable, HERE / "serve.py", "--counts", folder / "counts.json", "--ledger", ledger_file]
    command += ["--budget", repr(budget), "--epsilon", repr(EPSILON), "--lease", str(lease)]
    command += ["--workers", str(workers), "--port", "0"]
    with log_file.open("w") as log:
        server = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().rpartition(":")[2])
            start = time.perf_counter()
            tally, killed, early_memory = asyncio.run(_load(port, server.pid, requests, connections, kills))
            elapsed = time.perf_counter() - start
            memory = _memory(server.pid)
        finally:
            server.terminate()
            server.wait(timeout=30)
            if server.stdout is not None:
                server.stdout.close()
    ledger = Ledger(ledger_file)
    check(tally, ledger, lease)
    # What was paid for and never seen: the rest of the leases of killed workers, and answers lost on the way.
    wasted = sum(charge.details["releases"] for charge in ledger.charges) - len(tally.paid)
    assert wasted <= (killed + workers) * lease + tally.broken, f"{wasted} releases paid for in vain"
    check_log(log_file.read_text(), tally)
    seconds = sorted(tally.seconds)
    return {
        "requests": requests,
        "released": len(tally.values),
        "paid_in_vain": wasted,
        "ledger_entries": len(ledger.charges),
        "statuses": dict(tally.statuses),
        "workers_killed": killed,
        "connections_broken": tally.broken,
        "requests_per_second": len(seconds) / elapsed,
        "p50_ms": 1000 * seconds[len(seconds) // 2],
        "p99_ms": 1000 * seconds[len(seconds) * 99 // 100],
        "worker_memory_early_mib": early_memory / 1024,
        "worker_memory_mib": memory / 1024,
        "exit_code": server.returncode,
    }


def check(tally: Tally, ledger: Ledger, lease: int) -> None:
    """No repeated noise, no release without its charge, no overspent budget."""
    assert set(tally.statuses) <= {200, 403}, tally.statuses
    assert len(set(tally.values)) == len(tally.values), "two releases had the same noise"
    assert len(set(tally.paid)) == len(tally.paid), "one payment was used twice"
    charges = {charge.number: charge.details["releases"] for charge in ledger.charges}
    assert sorted(charges) == list(range(1, len(charges) + 1)), "a ledger entry was lost"
    assert all(1 <= part <= charges.get(number, 0) for number, part in tally.paid), (
        "a release was not in the ledger"
    )
    assert len(tally.paid) <= sum(charges.values())
    assert ledger.spent.epsilon <= ledger.epsilon, "overspent"


def check_log(text: str, tally: Tally) -> None:
    """The log has one line a request and nothing private in it."""
    public = {"time", "worker", "path", "status", "milliseconds", "charge"}
    # A killed worker may leave half a line.
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
    requests = [line for line in lines if "event" not in line]
    assert all(set(line) == public for line in requests)
    assert all(set(line) == {"time", "worker", "event", "ended", "code"} for line in lines if "event" in line)
    assert len(requests) >= 0.9 * sum(tally.statuses.values())
    assert str(SECRET) not in text
    assert not any(str(value) in text for value in tally.values[:100])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lease", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(pathlib.Path(folder), **vars(arguments)), indent=1))


if __name__ == "__main__":
    main()
