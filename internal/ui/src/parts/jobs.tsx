import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { call, CallError, newID } from "../api/client";
import type { components } from "../api/schema";
import { to } from "../router";
import { Dialog } from "./dialog";
import { Fault } from "./fault";
import { curl, quote, Terminal } from "./terminal";
import { type Verb, verbs } from "./verbs";
import { word } from "./words";

type Matched = components["schemas"]["JobCount"];
type Filter = components["schemas"]["JobFilter"];

/** The verbs of a job that need no further values. */
const simple: readonly Verb[] = ["retry", "cancel", "pause", "resume", "terminate", "rerun"];

/** The filter of a job from the parameters of the list. */
export function filterOf(asked: Record<string, readonly string[]>): Filter {
  const f: Record<string, unknown> = {};
  for (const [name, values] of Object.entries(asked)) f[name] = name === "label" ? values : name === "state" ? values.flatMap((v) => v.split(",")) : values[0];
  return (Object.keys(f).length === 0 ? { all: true } : f) as Filter;
}

const flags = (f: Filter): string =>
  Object.entries(f)
    .flatMap(([k, v]) => (v === true ? [`--${k}`] : [v].flat().map((x) => `--${k.replaceAll("_", "-")} ${quote(k === "label" ? String(x).replace(":", "=") : String(x))}`)))
    .join(" ");

/** Asks for a verb for all tasks that match: shows first which they are, then starts a job. */
export function JobDialog({ asked, close }: { asked: Record<string, readonly string[]>; close: () => void }): JSX.Element {
  const filter = filterOf(asked);
  const [verb, setVerb] = useState<Verb>("retry");
  const [reason, setReason] = useState("");
  const [rate, setRate] = useState("50/s");
  const [matched, setMatched] = useState<Matched>();
  const [fault, setFault] = useState<CallError>();
  const [job, setJob] = useState("");
  const [busy, setBusy] = useState(false);
  const id = useRef(newID());
  const bodyOf = (dry: boolean) => ({ verb, filter, ...(reason ? { reason } : {}), ...(dry ? { dry_run: true } : { id: id.current, rate, limit: matched?.matched ?? 0 }) });
  const ask = async <T,>(dry: boolean): Promise<T | undefined> => {
    setFault(undefined);
    setBusy(true);
    try {
      return await call<T>("POST", "v1/jobs", { body: bodyOf(dry) });
    } catch (e) {
      setFault(e instanceof CallError ? e : new CallError(0, { detail: String(e) }));
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!matched) setMatched(await ask<Matched>(true));
    else {
      const j = await ask<{ id: string }>(false);
      if (j) setJob(j.id);
    }
  };
  const change = (set: (v: string) => void) => (e: { currentTarget: { value: string } }) => {
    setMatched(undefined);
    set(e.currentTarget.value);
  };
  const cli = `sagalog task ${verb} ${flags(filter)} --rate ${rate}${reason ? ` --reason ${quote(reason)}` : ""} --api ${location.origin}`;
  return (
    <Dialog title="All tasks that match" close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <p class="faint">{filter.all ? "No filter is set: every task matches." : flags(filter).replaceAll("--", "")}</p>
        <label>
          What
          <select value={verb} onChange={change((v) => setVerb(v as Verb))}>
            {simple.map((v) => (
              <option key={v} value={v}>
                {v}: {verbs[v].does}
              </option>
            ))}
          </select>
        </label>
        <label>
          Reason, for the history
          <input value={reason} onInput={change(setReason)} />
        </label>
        <label>
          Rate
          <input value={rate} onInput={change(setRate)} />
        </label>
        <Fault of={fault} />
        {matched && !job && (
          <div role="status">
            <p>
              {matched.more ? "At least " : ""}
              {matched.matched} {matched.matched === 1 ? "task matches" : "tasks match"}
              {Object.keys(matched.by_state).length > 0 ? `: ${Object.entries(matched.by_state).map(([state, n]) => `${n} ${word(state)}`).join(", ")}` : ""}.
            </p>
            <ul>
              {matched.examples.map((e) => (
                <li key={e.task}>
                  <a href={to(["tasks", e.task])}>{e.task}</a> <span class="faint">{e.reason ?? word(e.state)}</span>
                </li>
              ))}
            </ul>
          </div>
        )}
        {job ? (
          <p role="status">
            The job has started. <a href={to(["jobs"])}>Jobs</a> shows its progress.
          </p>
        ) : (
          <div class="buttons">
            <button type="submit" class={matched && verbs[verb].grave ? "grave" : "main"} disabled={busy || matched?.matched === 0}>
              {busy ? "…" : matched ? `${verb} ${matched.matched} ${matched.matched === 1 ? "task" : "tasks"}` : "show which tasks"}
            </button>
          </div>
        )}
        <Terminal cli={cli} curl={curl("POST", "v1/jobs", { body: bodyOf(false) })} />
      </form>
    </Dialog>
  );
}
