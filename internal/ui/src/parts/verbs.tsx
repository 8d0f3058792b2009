import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { lacking } from "../access";
import { call, CallError, segment, type Step, type Task, newID } from "../api/client";
import { useKeys } from "../keys";
import { Dialog } from "./dialog";
import { Fault } from "./fault";
import { curl, quote, Terminal } from "./terminal";

export type Verb = "cancel" | "pause" | "resume" | "retry" | "skip" | "complete" | "fail" | "rerun" | "terminate" | "signal";

interface Field {
  name: "step" | "with" | "output" | "message" | "effect" | "operation" | "from" | "input" | "signal" | "payload";
  says: string;
  /** JSON text, a choice, or plain text. */
  kind: "json" | "text" | "step" | readonly string[];
  must?: boolean;
}

const step: Field = { name: "step", says: "Step", kind: "step", must: true };
const operation: Field = { name: "operation", says: "Do or undo", kind: ["", "do", "undo"] };

/** What each verb does, in a sentence, and what it takes. */
export const verbs: Record<Verb, { key: string; does: string; fields: readonly Field[]; grave?: boolean }> = {
  cancel: { key: "c", does: "Undo what was done and end the task as undone. Running attempts are asked to stop.", fields: [] },
  pause: { key: "p", does: "Nothing more starts until the task is resumed. Running attempts finish. The deadline moves by the length of the pause; the time limits of steps do not.", fields: [] },
  resume: { key: "u", does: "Let the paused task continue.", fields: [] },
  retry: { key: "r", does: "Start the failed or parked step again, with another input if you give one.", fields: [{ ...step, must: false }, { name: "with", says: "Input in place of the resolved one (JSON)", kind: "json" }] },
  skip: { key: "s", does: "Go on without the step, as if it had returned this output.", fields: [step, { name: "output", says: "Output (JSON)", kind: "json" }] },
  complete: { key: "d", does: "Record that the step was done by hand.", fields: [step, operation, { name: "output", says: "Output (JSON)", kind: "json" }] },
  fail: { key: "f", does: "Record that the attempt has failed, without waiting for its time limit.", fields: [step, operation, { name: "message", says: "What went wrong", kind: "text" }, { name: "effect", says: "What the attempt may have changed", kind: ["", "none", "done_unknown", "in_doubt"] }] },
  signal: { key: "S", does: "Send a signal that a step waits for, or will wait for.", fields: [{ name: "signal", says: "Name of the signal", kind: "text", must: true }, { name: "payload", says: "Payload (JSON)", kind: "json" }] },
  rerun: { key: "R", does: "Undo what the chosen steps did, then run them again. Services see new calls with new keys.", fields: [{ name: "from", says: "From this step on; empty: the whole task", kind: "step" }, { name: "input", says: "Another input (JSON)", kind: "json" }], grave: true },
  terminate: { key: "T", does: "End the task now. Nothing is undone.", fields: [], grave: true },
};

const ended = (t: Task): boolean => t.state === "processed" || t.state === "undone" || t.state === "terminated" || t.state === "rejected";

/** Why the person may not ask for a verb. */
const barred = (verb: Verb): string | null => lacking(verb === "signal" ? "submitter" : "operator");

/** Why the engine would refuse a verb now, as far as the page can tell; the engine decides. */
export function refusal(verb: Verb, t: Task): string | null {
  const no = barred(verb);
  if (no !== null) return no;
  switch (verb) {
    case "resume":
      return t.paused ? null : "The task is not paused.";
    case "pause":
      return ended(t) ? "The task has ended." : t.paused ? "The task is already paused." : null;
    case "rerun":
      return ended(t) || t.state === "error" ? null : "Only a task that has ended or is parked can be rerun.";
    case "cancel":
      return ended(t) ? "The task has ended." : t.state === "undoing" ? "The task is already being undone." : null;
    default:
      return ended(t) ? "The task has ended." : null;
  }
}

type Values = Partial<Record<Field["name"] | "reason", string>>;

/** The body of a request, or the name of the field whose JSON cannot be read. */
function bodyOf(verb: Verb, v: Values): { body: Record<string, unknown> } | { wrong: string } {
  const body: Record<string, unknown> = {};
  if (v.reason) body["reason"] = v.reason;
  for (const f of verbs[verb].fields) {
    const text = v[f.name]?.trim() ?? "";
    if (text === "") {
      if (f.must) return { wrong: `${f.says} is missing.` };
      continue;
    }
    if (f.name === "message") body["error"] = { message: text };
    else if (f.kind === "json") {
      try {
        body[f.name] = JSON.parse(text);
      } catch (e) {
        return { wrong: `${f.says}: ${(e as Error).message}` };
      }
    } else body[f.name] = text;
  }
  return { body };
}

/** The lines that do the same from a terminal. */
export function lines(verb: Verb, id: string, v: Values): { cli: string; curl: string } {
  const flags: string[] = [];
  for (const f of verbs[verb].fields) {
    const text = v[f.name];
    if (text && f.name !== "signal") flags.push(`--${f.name} ${quote(text)}`);
  }
  if (v.reason) flags.push(`--reason ${quote(v.reason)}`);
  const made = bodyOf(verb, v);
  const body = "body" in made ? made.body : {};
  return {
    cli: ["sagalog task", verb, quote(id), verb === "signal" ? quote(v.signal ?? "NAME") : "", ...flags, "--api", location.origin].filter(Boolean).join(" "),
    curl: curl("POST", `v1/tasks/${segment(id)}/${verb}`, { query: { wait: "5s" }, body }),
  };
}

interface Receipt {
  result?: string;
  reason?: string;
}

/** Asks for what a verb needs, shows the lines that do the same, and says what became of the request. */
export function VerbDialog({ verb, ids, steps, preset, close }: { verb: Verb; ids: readonly string[]; steps: readonly Step[]; preset?: Values; close: () => void }): JSX.Element {
  const [typed, set] = useState<Values>(preset ?? {});
  const values: Values = typed.with !== undefined && typed.with === preset?.with ? { ...typed, with: "" } : typed; // an input that nobody changed is no other input
  const [wrong, setWrong] = useState("");
  const [fault, setFault] = useState<CallError>();
  const [said, say] = useState<string[]>([]);
  const [busy, setBusy] = useState(false);
  // The keys stay for as long as the content does: a second try after a lost answer is the same request.
  const keys = useRef(new Map<string, string>());
  const change = (name: keyof Values, value: string) => {
    keys.current.clear();
    set((v) => ({ ...v, [name]: value }));
  };
  const send = async (event: Event) => {
    event.preventDefault();
    const made = bodyOf(verb, values);
    if ("wrong" in made) return setWrong(made.wrong);
    setWrong("");
    setFault(undefined);
    setBusy(true);
    const outcome: string[] = [];
    for (const id of ids) {
      const key = keys.current.get(id) ?? newID();
      keys.current.set(id, key);
      try {
        const r = await call<Receipt>("POST", `v1/tasks/${segment(id)}/${verb}`, { query: { wait: "5s" }, body: made.body, headers: { "Idempotency-Key": key } });
        outcome.push(`${id}: ${r.result ?? "accepted, not judged yet"}${r.reason ? `: ${r.reason}` : ""}`);
      } catch (e) {
        const error = e instanceof CallError ? e : new CallError(0, { detail: String(e) });
        if (ids.length === 1) setFault(error);
        else outcome.push(`${id}: ${error.message}`);
      }
      say([...outcome]);
    }
    setBusy(false);
  };
  const l = lines(verb, ids[0] ?? "ID", values);
  const v = verbs[verb];
  return (
    <Dialog title={`${verb} ${ids.length === 1 ? ids[0] : `${ids.length} tasks`}`} close={close}>
      <form onSubmit={(e) => void send(e)}>
        <p>{v.does}</p>
        {v.fields.map((f) => (
          <label key={f.name}>
            {f.says}
            {f.kind === "json" ? (
              <textarea rows={4} spellcheck={false} value={typed[f.name] ?? ""} onInput={(e) => change(f.name, e.currentTarget.value)} />
            ) : f.kind === "step" && steps.length > 0 ? (
              <select value={values[f.name] ?? ""} onChange={(e) => change(f.name, e.currentTarget.value)}>
                <option value="">{f.must ? "choose" : ""}</option>
                {steps.map((s) => (
                  <option key={s.id}>{s.id}</option>
                ))}
              </select>
            ) : Array.isArray(f.kind) ? (
              <select value={values[f.name] ?? ""} onChange={(e) => change(f.name, e.currentTarget.value)}>
                {(f.kind as readonly string[]).map((o) => (
                  <option key={o} value={o}>
                    {o || "default"}
                  </option>
                ))}
              </select>
            ) : (
              <input value={values[f.name] ?? ""} onInput={(e) => change(f.name, e.currentTarget.value)} />
            )}
          </label>
        ))}
        <label>
          Reason, for the history
          <input value={values.reason ?? ""} onInput={(e) => change("reason", e.currentTarget.value)} />
        </label>
        {wrong && (
          <p class="fault" role="alert">
            {wrong}
          </p>
        )}
        <Fault of={fault} />
        {said.length > 0 && (
          <ul class="said" role="status">
            {said.map((s) => (
              <li key={s}>{s}</li>
            ))}
          </ul>
        )}
        <div class="buttons">
          <button type="submit" class={v.grave ? "grave" : "main"} disabled={busy}>
            {busy ? "…" : said.length > 0 || fault ? `${verb} again` : verb}
          </button>
        </div>
        <Terminal cli={l.cli} curl={l.curl} />
      </form>
    </Dialog>
  );
}

/** The verbs for one task, each with the reason if it would be refused now. A reason in barred applies to all of them. */
export function TaskVerbs({ task, chosen, done, barred: no }: { task: Task; chosen: string | undefined; done: () => void; barred: string | null }): JSX.Element {
  const [open, set] = useState<Verb | null>(null);
  const all = Object.keys(verbs) as Verb[];
  const why = (v: Verb): string | null => no ?? refusal(v, task);
  useKeys(Object.fromEntries(all.map((v) => [verbs[v].key, { does: `${v} the task`, run: () => why(v) === null && set(v) }])), open === null);
  const preset: Values = {};
  const stuck = task.steps.filter((o) => ["failed", "timed_out", "undo_failed"].includes(o.state));
  const s = task.steps.find((o) => o.id === chosen) ?? (stuck.length === 1 ? stuck[0] : undefined);
  if (s && (chosen || open === "retry")) preset.step = s.id;
  if (open === "retry" && s?.input !== undefined) preset.with = JSON.stringify(s.with ?? s.input, null, 2);
  return (
    <div class="verbs" role="toolbar" aria-label="verbs">
      {all.map((v) => {
        const no = why(v);
        return (
          <button key={v} type="button" aria-disabled={no !== null} title={no ?? `${verbs[v].does} Key: ${verbs[v].key}`} onClick={() => no === null && set(v)} class={verbs[v].grave ? "grave" : ""}>
            {v}
          </button>
        );
      })}
      {open && (
        <VerbDialog
          verb={open}
          ids={[task.id]}
          steps={task.steps}
          preset={preset}
          close={() => {
            set(null);
            done();
          }}
        />
      )}
    </div>
  );
}

/** The verbs that need nothing but a reason, for several tasks. */
export function Bulk({ ids, clear }: { ids: readonly string[]; clear: () => void }): JSX.Element {
  const [open, set] = useState<Verb | null>(null);
  const simple: readonly Verb[] = ["cancel", "pause", "resume", "retry", "terminate"];
  return (
    <span class="verbs" role="toolbar" aria-label={`verbs for ${ids.length} selected tasks`}>
      {ids.length} selected:
      {simple.map((v) => (
        <button key={v} type="button" aria-disabled={barred(v) !== null} title={barred(v) ?? verbs[v].does} onClick={() => barred(v) === null && set(v)} class={verbs[v].grave ? "grave" : ""}>
          {v}
        </button>
      ))}
      <button type="button" class="link" onClick={clear}>
        clear
      </button>
      {open && <VerbDialog verb={open} ids={ids} steps={[]} close={() => set(null)} />}
    </span>
  );
}
