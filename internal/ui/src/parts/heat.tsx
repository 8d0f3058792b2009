import type { JSX } from "preact";
import { get, type StepSummary } from "../api/client";
import { type Live, useLive } from "../live";
import { place, refine } from "../router";
import { type Heat, heats, seconds, share, type Stats, words } from "./attempts";
import { Fault } from "./fault";
import { Since } from "./since";

/** Times over which attempts are counted, and the parts of each that the engine is asked for. */
export const times = { "1h": { words: "last hour", every: "10m" }, "6h": { words: "last 6 hours", every: "1h" } } as const;
export type Time = keyof typeof times;

/** Reads what happened to the attempts of each step, of one workflow or of all. */
export function useStepStats(workflow: string, over: Time): Live<Stats> {
  return useLive<Stats>(`stats of steps ${workflow} ${over}`, (signal) => get("v1/stats", { query: { workflow, step: "*", since: over, every: times[over].every }, signal }), 10);
}

/** How hot a step is, from 0 to 3: by its failures, or by its time beside that of the slowest step. */
function level(h: Heat | undefined, by: string, slowest: number): 0 | 1 | 2 | 3 {
  if (!h) return 0;
  if (by === "time") {
    const part = slowest === 0 || h.p95 === undefined ? 0 : h.p95 / slowest;
    return part > 0.75 ? 3 : part > 0.4 ? 2 : part > 0.1 ? 1 : 0;
  }
  const s = share(h);
  return s >= 0.2 ? 3 : s >= 0.05 ? 2 : s > 0 ? 1 : 0;
}

/** What stands in the box of a step instead of a state. */
export interface Note {
  tone: string;
  words: string;
}

export interface Heated {
  notes: ReadonlyMap<string, Note>;
  /** How to choose, and the same as a table. */
  legend: JSX.Element;
}

/** The heat of a workflow's steps. The address holds over which time, and by what the boxes are coloured. */
export function useHeat(workflow: string, steps: readonly StepSummary[]): Heated {
  const over: Time = place.value.query.get("over") === "6h" ? "6h" : "1h";
  const by = place.value.query.get("heat") === "time" ? "time" : "failures";
  const stats = useStepStats(workflow, over);
  const all = heats(stats.data?.rows ?? [], (r) => r.step ?? "");
  const slowest = Math.max(0, ...steps.map((s) => all.get(s.id)?.p95 ?? 0));
  const notes = new Map(
    steps.map((s) => {
      const h = all.get(s.id);
      return [s.id, { tone: `heat${level(h, by, slowest)}`, words: stats.data ? words(h) : "" }];
    }),
  );
  const choice = <T extends string>(name: string, value: T, list: readonly (readonly [T, string])[]) => (
    <label>
      {name}{" "}
      <select value={value} onChange={(e) => refine({ [name]: e.currentTarget.value === list[0]?.[0] ? "" : e.currentTarget.value }, true)}>
        {list.map(([v, text]) => (
          <option key={v} value={v}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
  const legend = (
    <div>
      <div class="count">
        {choice("over", over, [["1h", times["1h"].words], ["6h", times["6h"].words]])}
        {choice("heat", by, [["failures", "failures"], ["time", "time"]])}
        <span>{by === "failures" ? "Redder: more attempts failed or timed out (above 0 %, from 5 %, from 20 %)." : "Redder: slower, beside the slowest step."}</span>
      </div>
      <Since of={stats.data} all={over === "6h" ? "6 hours" : "hour"} />
      <Fault of={stats.error} />
      <details>
        <summary>attempts of steps as a table</summary>
        <Table steps={steps} all={all} />
        <p class="faint">p95 is an estimate: the highest of the parts of this time.</p>
      </details>
    </div>
  );
  return { notes, legend };
}

function Table({ steps, all }: { steps: readonly StepSummary[]; all: ReadonlyMap<string, Heat> }): JSX.Element {
  return (
    <table>
      <thead>
        <tr>
          {["Step", "Attempts", "Failed", "Timed out", "p95"].map((t) => (
            <th key={t} scope="col">
              {t}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {steps.map((s) => {
          const h = all.get(s.id);
          return (
            <tr key={s.id}>
              <th scope="row">{s.id}</th>
              <td>{h?.attempts ?? 0}</td>
              <td>{h?.failed ?? 0}</td>
              <td>{h?.timedOut ?? 0}</td>
              <td>{h?.p95 === undefined ? "-" : seconds(h.p95)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
