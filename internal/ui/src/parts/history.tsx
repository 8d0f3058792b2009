import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, type HistoryEvent, type Info } from "../api/client";
import { useLive } from "../live";
import { refine, to } from "../router";
import { exact } from "../time";
import { download } from "./csv";
import { Json } from "./json";
import { KcatLine } from "./kcat";
import { Payload } from "./payload";
import { type Past, seek } from "./scrubber";

/** The name of the namespace, which the names of its topics begin with. */
export const useNamespace = (): string | undefined => useLive<Info>("info", (signal) => get("v1/info", { signal }), 60).data?.namespace;

/** The record that made a task, as its first fact names it: submissions 3@1200. Undefined if no record did, or that fact was trimmed. */
export function sourceOf(events: readonly HistoryEvent[]): { topic: string; partition: number; offset: number } | undefined {
  const m = /^([sr])\/(\d+)\/(\d+)$/.exec(events.find((e) => e.type === "Submitted")?.cause ?? "");
  return m ? { topic: m[1] === "s" ? "submissions" : "reports", partition: Number(m[2]), offset: Number(m[3]) } : undefined;
}

/** The facts of a step, or all of them. Each knows whether another owner than that of the fact before it, shown or not, recorded it. */
function chosenOf(events: readonly HistoryEvent[], step: string | undefined): { e: HistoryEvent; from: string | undefined }[] {
  const shown: { e: HistoryEvent; from: string | undefined }[] = [];
  let owner: string | undefined;
  let from: string | undefined;
  for (const e of events) {
    if (owner !== undefined && e.owner !== undefined && e.owner !== owner) from ??= owner;
    owner = e.owner ?? owner;
    if (step !== undefined && e.step !== step) continue;
    shown.push({ e, from: from === owner ? undefined : from });
    from = undefined;
  }
  return shown;
}

/** What has happened to a task, fact by fact. */
export function History({ events, steps, step, cut, id, past }: { events: readonly HistoryEvent[]; steps: readonly string[]; step: string | undefined; cut: boolean; id: string; past: Past }): JSX.Element {
  const [open, set] = useState<number | null>(null);
  const namespace = useNamespace();
  const shown = chosenOf(events, step);
  return (
    <div>
      <p class="faint verbs">
        {shown.length.toLocaleString()} facts{cut ? ", of the first 10,000" : ""}.
        <label>
          Step{" "}
          <select value={step ?? ""} onChange={(e) => refine({ step: e.currentTarget.value }, true)}>
            <option value="">all, and the task</option>
            {[...new Set([...steps, ...(step === undefined ? [] : [step])])].map((s) => (
              <option key={s}>{s}</option>
            ))}
          </select>
        </label>
        <button type="button" title="the facts of the list, with inputs and outputs, as a file" onClick={() => download(`${id}-history.json`, "application/json", `${JSON.stringify(shown.map((f) => f.e), null, 2)}\n`)}>
          download as JSON
        </button>
        <a href={to(["v1", "tasks", id, "history"])} target="_blank" rel="noreferrer">
          raw
        </a>
      </p>
      <ol class="history">
        {shown.map(({ e, from }) => (
          <li key={`${e.partition}@${e.offset}`} aria-current={past.on && past.facts[past.index] === e ? "true" : undefined}>
            {from !== undefined && (
              <p class="divider">
                partition {e.partition} went from {from} to {e.owner}
              </p>
            )}
            <button type="button" class="fact" aria-expanded={open === e.offset} onClick={() => set(open === e.offset ? null : e.offset)}>
              <time dateTime={e.time} title={exact(e.time)}>
                {exact(e.time).slice(11, 23)}
              </time>
              <span>{e.text}</span>
              <span class="faint">
                {e.partition}@{e.offset}
              </span>
            </button>
            {open === e.offset && (
              <div class="raw">
                <Payload what={`fact ${e.partition}@${e.offset}`}>
                  <Json of={e} label={`fact ${e.partition}@${e.offset}`} />
                </Payload>
                {past.facts.includes(e) && (
                  <button type="button" class="copy" onClick={() => seek(past, past.facts.indexOf(e))}>
                    the task after this fact
                  </button>
                )}{" "}
                {namespace !== undefined && <KcatLine topic={`${namespace}.events`} partition={e.partition} offset={e.offset} />}
              </div>
            )}
          </li>
        ))}
      </ol>
    </div>
  );
}
