"""A service that keeps a ledger of the calls that it receives, in the form that `sagalog verify --ledgers` compares with the log."""

import json
import threading
from collections import Counter
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Bank:
    """Does what a call asks for once for each key, as a service should. Calls with "refuse" get 422, and with "fail" 503 that many times."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.answering = threading.Event()  # while it is not set, calls take effect and get no answer
        self.answering.set()
        self.waiting = 0
        self._lock = threading.Lock()
        self._seen: set[str] = set()  # keys that took effect, or whose undo came first
        self._failed: Counter[str] = Counter()
        bank = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = bank.judge(call)
                try:
                    self.send_response(status)
                    self.end_headers()
                except OSError:  # the agent was killed meanwhile
                    pass

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def judge(self, call: dict[str, Any]) -> int:
        with self._lock:
            status, outcome = self._outcome(call)
            line = {k: call[k] for k in ("identifier", "task", "step", "operation")}
            with self.ledger.open("a") as out:
                out.write(json.dumps({**line, "outcome": outcome, "time": datetime.now(UTC).isoformat()}) + "\n")
            self.waiting += 1
        self.answering.wait()
        with self._lock:
            self.waiting -= 1
        return status

    def _outcome(self, call: dict[str, Any]) -> tuple[int, str]:
        key = call["identifier"]
        if call.get("refuse"):
            return 422, "refused"
        if self._failed[key] < call.get("fail", 0):
            self._failed[key] += 1
            return 503, "refused"
        if key in self._seen:
            return 200, "repeated"
        self._seen |= {key, call.get("undoes", "")}
        return 200, "done"

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    def __enter__(self) -> Self:
        self.ledger.parent.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.answering.set()
        self._server.shutdown()
        self._server.server_close()
