"""The agent card: each of its operations is one call of the bank."""

import asyncio
import json
import os
import urllib.error
import urllib.request

import sagalog
from sagalog import Attempt, Json, Refused, Retryable

agent = sagalog.Agent(
    "card",
    brokers=os.environ["BROKERS"],
    instance=os.environ.get("INSTANCE"),
    grace=float(os.environ.get("GRACE", "2")),
    seal_key_file=os.environ.get("KEY_FILE"),
)


def call(a: Attempt, asked: dict[str, Json]) -> None:
    body = {"identifier": a.key, "undoes": a.undoes, "task": a.task, "step": a.step, "operation": "undo" if a.undo else "do", **asked}
    request = urllib.request.Request(os.environ["BANK"], json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=600):
            pass
    except urllib.error.HTTPError as e:
        detail = {"status": e.code}
        if e.code == 422:
            raise Refused("the bank refused", code="http_422", detail=detail, effect="none") from e
        raise Retryable("the bank is busy", code="http_503", detail=detail, effect="none") from e


@agent.operation("charge")
async def charge(a: Attempt) -> Json:
    await asyncio.to_thread(call, a, {})
    return {"charged": a.input["amount"]}


@agent.undo("charge")
async def refund(a: Attempt) -> Json:
    await asyncio.to_thread(call, a, {})
    return None


@agent.operation("ship")
async def ship(a: Attempt) -> Json:
    await asyncio.to_thread(call, a, {k: a.input[k] for k in ("refuse", "fail") if k in a.input})
    return {"shipped": a.input["amount"]}


@agent.undo("ship")
async def take_back(a: Attempt) -> Json:
    await asyncio.to_thread(call, a, {})
    return None


agent.run_forever()
