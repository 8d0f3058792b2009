import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { lacking } from "../access";
import { call, CallError, segment } from "../api/client";
import type { components } from "../api/schema";
import { to } from "../router";
import { Dialog } from "./dialog";
import { Fault } from "./fault";
import { curl, quote, Terminal } from "./terminal";
import { When } from "./words";

export type Letter = components["schemas"]["DeadLetterDocument"];
export type LetterVerb = "redrive" | "dismiss";

/** What somebody has done about a dead letter, in a few words. */
export function Mark({ of: d }: { of: Letter }): JSX.Element | null {
  const m = d.mark;
  if (!m) return null;
  return (
    <span title={[m.by && `by ${m.by}`, m.reason].filter(Boolean).join(": ")}>
      {m.mark} <When at={m.at} />
    </span>
  );
}

/** The same in a sentence. */
export function Marked({ of: d }: { of: Letter }): JSX.Element | null {
  const m = d.mark;
  if (!m) return null;
  return (
    <p class="notice" role="status">
      {m.mark === "redriven" ? "Redriven" : "Dismissed"}
      {m.by ? ` by ${m.by}` : ""} <When at={m.at} />
      {m.task && (
        <>
          {" "}
          as <a href={to(["tasks", m.task])}>task {m.task}</a>
        </>
      )}
      {m.reason ? `: ${m.reason}` : "."}
    </p>
  );
}

/** Redrives or dismisses dead letters, one after the other; one that fails does not stop the others. Closing the dialog leaves the rest as they are. */
export function LettersDialog({ verb, letters, close, done }: { verb: LetterVerb; letters: readonly Letter[]; close: () => void; done: () => void }): JSX.Element {
  const [reason, setReason] = useState("");
  const [at, setAt] = useState<number>();
  const [failed, setFailed] = useState<{ id: string; error: CallError }[]>([]);
  const [open] = useState(() => letters.map((d) => d.id));
  const stopped = useRef(false);
  const no = lacking("operator");
  const body = verb === "dismiss" && reason !== "" ? { reason } : {};
  const of = open.length === 1 ? `the dead letter ${open[0]}` : `${open.length.toLocaleString()} dead letters`;
  const send = async (event: Event) => {
    event.preventDefault();
    if (no !== null || at !== undefined) return;
    for (const [i, id] of open.entries()) {
      if (stopped.current) break;
      setAt(i);
      try {
        await call("POST", `v1/dead-letters/${segment(id)}/${verb}`, { body });
      } catch (e) {
        const error = e instanceof CallError ? e : new CallError(0, { detail: String(e) });
        setFailed((f) => [...f, { id, error }]);
      }
    }
    setAt(open.length);
    done();
  };
  const leave = () => {
    stopped.current = true;
    if (at !== undefined) done();
    close();
  };
  const cli = `sagalog dlq ${verb} ${open.slice(0, 20).map(quote).join(" ")}${open.length > 20 ? " ..." : ""}${body.reason ? ` --reason ${quote(body.reason)}` : ""} --api ${location.origin}`;
  return (
    <Dialog title={`${verb} ${of}`} close={leave}>
      <form onSubmit={(e) => void send(e)}>
        <p>
          {verb === "redrive"
            ? "The same bytes and headers are sent as new records. Fix the cause first, or they will be rejected again."
            : "This records that no further action is needed. The record stays where it is, for as long as its topic keeps it, and can still be redriven."}
        </p>
        {verb === "dismiss" && (
          <label>
            Reason, for the record
            <input type="text" value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
          </label>
        )}
        {at !== undefined && (
          <p role="status">
            {at < open.length ? `${at.toLocaleString()} of ${open.length.toLocaleString()} …` : `${(open.length - failed.length).toLocaleString()} of ${open.length.toLocaleString()} ${verb === "redrive" ? "sent again" : "dismissed"}.`}
          </p>
        )}
        {failed.slice(0, 5).map((f) => (
          <div key={f.id}>
            {open.length > 1 && <p class="faint">{f.id}</p>}
            <Fault of={f.error} />
          </div>
        ))}
        {failed.length > 5 && <p class="faint">and {failed.length - 5} more that failed</p>}
        <div class="buttons">
          <button type="submit" class="main" aria-disabled={no !== null || at !== undefined || undefined} title={no ?? undefined}>
            {at !== undefined && at < open.length ? "…" : verb}
          </button>
        </div>
        <Terminal cli={cli} curl={curl("POST", `v1/dead-letters/${segment(open[0] ?? "")}/${verb}`, { body })} />
      </form>
    </Dialog>
  );
}
