import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { lacking } from "../access";
import { call, CallError, newID } from "../api/client";

/** Runs small actions that need nothing but a click, and says what became of the last one. */
export function useAct(done: () => void): { run: (path: string, body?: unknown) => void; fault: CallError | undefined; said: JSX.Element | null } {
  const [fault, setFault] = useState<CallError>();
  const [words, say] = useState("");
  const run = (path: string, body: unknown = {}) => {
    const no = lacking("operator");
    if (no !== null) return setFault(new CallError(403, { detail: no }));
    setFault(undefined);
    say("…");
    const verb = path.slice(path.lastIndexOf("/") + 1);
    call<{ result?: string } | null>("POST", path, { query: path.includes("/agents/") || path.includes("/jobs/") || path.includes("/dead-letters/") ? {} : { wait: "5s" }, body, headers: { "Idempotency-Key": newID() } }).then(
      (r) => {
        say(`${verb}: ${r?.result ?? "done"}`);
        done();
      },
      (e: unknown) => {
        say("");
        setFault(e instanceof CallError ? e : new CallError(0, { detail: String(e) }));
      },
    );
  };
  return { run, fault, said: words ? <span role="status">{words}</span> : null };
}
