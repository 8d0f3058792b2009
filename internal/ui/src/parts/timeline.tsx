import type { JSX } from "preact";
import type { HistoryEvent } from "../api/client";
import { now } from "../live";
import { exact, span } from "../time";

/** A bar of the timeline: an attempt, or a time in which nothing ran and why. */
export interface Bar {
  step: string;
  kind: "do" | "undo" | "retry" | "cool_down" | "sleep" | "signal";
  attempt: number;
  run: number;
  from: number;
  /** Absent while it goes on. */
  to?: number;
  outcome: "running" | "completed" | "failed" | "timed_out" | "waiting";
  says: string;
  /** How many attempts at items the bar stands for; absent if it is one attempt. */
  attempts?: number;
}

type Data = Record<string, unknown> & { verdict?: { action?: string; at?: string; reason?: string }; error?: { message?: string } };

/** Reads the bars from the facts of a task. */
export function bars(events: readonly HistoryEvent[], until: number): Bar[] {
  const list: Bar[] = [];
  const open = new Map<string, Bar>(); // by step and operation
  const end = (key: string, at: number, outcome: Bar["outcome"], says: string): void => {
    const b = open.get(key);
    if (!b) return;
    b.to = at;
    b.outcome = outcome;
    if (says) b.says = says;
    open.delete(key);
  };
  const begin = (key: string, b: Bar): void => {
    end(key, b.from, "completed", "");
    list.push(b);
    open.set(key, b);
  };
  for (const e of events) {
    const d = (e.data ?? {}) as Data;
    const at = Date.parse(e.time);
    const step = e.step ?? (typeof d["step"] === "string" ? d["step"] : undefined);
    if (step === undefined) {
      if (["TaskProcessed", "TaskUndone", "TaskTerminated", "TaskParked"].includes(e.type)) for (const key of [...open.keys()]) if (open.get(key)?.outcome === "waiting") end(key, at, "waiting", "");
      continue;
    }
    const run = typeof d["run"] === "number" ? d["run"] : 1;
    const operation = e.type.startsWith("Compensat") || d["operation"] === "undo" || d["left"] === true ? "undo" : "do";
    const key = `${operation} ${step}`;
    const failed = (outcome: "failed" | "timed_out"): void => {
      const why = d.error?.message ?? (outcome === "timed_out" ? "no report came in time" : "failed");
      end(key, at, outcome, [why, d.verdict?.reason].filter(Boolean).join("; "));
      const v = d.verdict;
      if (v?.at && (v.action === "retry" || v.action === "cool_down")) {
        begin(key, { step, kind: v.action, attempt: e.attempt ?? 0, run, from: at, outcome: "waiting", says: `${v.action === "retry" ? "backoff" : "cool-down"} until ${exact(v.at)}` });
      }
    };
    switch (e.type) {
      case "StepStarted":
      case "CompensationStarted":
        begin(key, { step, kind: operation, attempt: e.attempt ?? 1, run, from: at, outcome: "running", says: "" });
        break;
      case "WaitStarted":
        begin(key, { step, kind: Array.isArray(d["signals"]) ? "signal" : "sleep", attempt: 0, run, from: at, outcome: "waiting", says: Array.isArray(d["signals"]) ? `waits for ${(d["signals"] as string[]).join(" or ")}` : "sleeps" });
        break;
      case "StepCompleted":
      case "Compensated":
        end(key, at, "completed", "");
        break;
      case "StepFailed":
      case "CompensationFailed":
        failed("failed");
        break;
      case "Timeout":
        failed("timed_out");
        break;
      case "StepSkipped":
        if (operation === "undo") {
          if (!open.has(key)) begin(key, { step, kind: "undo", attempt: 0, run, from: at, outcome: "waiting", says: "" });
          end(key, at, "waiting", "skipped by hand: what the step did is left");
        } else end(key, at, "waiting", "skipped");
        break;
    }
  }
  for (const b of open.values()) if (b.outcome === "waiting" && until < b.from) b.to = b.from;
  return list;
}

const item = /^(.+)\[\d+\]$/;

/** Puts the attempts at all items of a step into one bar, so that thousands of items are one lane. The chosen item keeps one to itself. */
export function merged(all: readonly Bar[], chosen: string | undefined): Bar[] {
  const list: Bar[] = [];
  const sums = new Map<string, Bar>();
  const failed = new Map<Bar, number>();
  for (const b of all) {
    const step = item.exec(b.step)?.[1];
    if (step === undefined || b.step === chosen) list.push(b);
    if (step === undefined || (b.kind !== "do" && b.kind !== "undo")) continue;
    const key = `${step} ${b.kind} ${b.run}`;
    let sum = sums.get(key);
    if (!sum) {
      sum = { ...b, step, attempt: 0, outcome: "completed", says: "", attempts: 0 };
      sums.set(key, sum);
      list.push(sum);
    }
    sum.attempts = (sum.attempts ?? 0) + 1;
    sum.from = Math.min(sum.from, b.from);
    if (b.to === undefined) {
      delete sum.to;
      sum.outcome = "running";
    } else if (sum.to !== undefined) sum.to = Math.max(sum.to, b.to);
    if (b.outcome === "failed" || b.outcome === "timed_out") failed.set(sum, (failed.get(sum) ?? 0) + 1);
  }
  for (const [sum, n] of failed) sum.says = `${n} failed`;
  return list;
}

/**
 * The attempts of each step over time: above the line what was done, below it what took it back. Backoffs between attempts are drawn thin.
 */
export function Timeline({ events, order, ended, chosen, choose }: { events: readonly HistoryEvent[]; order: readonly string[]; ended: boolean; chosen: string | undefined; choose: (step: string) => void }): JSX.Element {
  const first = events[0];
  if (!first) return <p class="faint">Nothing has happened yet.</p>;
  const last = events[events.length - 1];
  const from = Date.parse(first.time);
  const to = Math.max(from + 1, ended && last ? Date.parse(last.time) : now.value);
  const lanes = new Map<string, Bar[]>(order.map((step) => [step, []]));
  for (const b of merged(bars(events, to), chosen)) {
    const lane = lanes.get(b.step);
    if (lane) lane.push(b);
    else lanes.set(b.step, [b]);
  }
  const x = (t: number): number => (100 * (Math.min(Math.max(t, from), to) - from)) / (to - from);
  return (
    <div class="timeline" role="list" aria-label="timeline of attempts">
      {[...lanes].filter(([, lane]) => lane.length > 0).map(([step, lane]) => (
        <div key={step} role="listitem" class={`lane${step === chosen ? " chosen" : ""}`}>
          <button type="button" class="link name" onClick={() => choose(step)}>
            {step}
          </button>
          <div class="line">
            {lane.map((b) => {
              const label = `${nameOf(b)}: ${b.kind === "undo" && b.outcome === "waiting" ? "skipped" : b.outcome.replace("_", " ")}, ${span((b.to ?? to) - b.from)} from ${exact(new Date(b.from).toISOString())}${b.says ? `: ${b.says}` : ""}`;
              return (
                <span
                  key={`${b.kind} ${b.run} ${b.attempt} ${b.from}`}
                  class={`bar ${b.kind} ${b.outcome}${b.to === undefined ? " open" : ""}`}
                  style={{ left: `${x(b.from)}%`, width: `max(4px, ${x(b.to ?? to) - x(b.from)}%)` }}
                  role="img"
                  aria-label={label}
                  title={label}
                />
              );
            })}
          </div>
        </div>
      ))}
      <div class="axis" aria-hidden="true">
        <span>{exact(first.time).slice(11, 23)}</span>
        <span>{span(to - from)}</span>
      </div>
    </div>
  );
}

function nameOf(b: Bar): string {
  if (b.attempts !== undefined) return `${b.attempts} ${b.kind === "undo" ? "undos of items" : "attempts at items"}`;
  switch (b.kind) {
    case "do":
      return `attempt ${b.attempt}`;
    case "undo":
      return b.attempt === 0 ? "undo" : `undo, attempt ${b.attempt}`;
    case "retry":
      return `backoff after attempt ${b.attempt}`;
    case "cool_down":
      return `cool-down after attempt ${b.attempt}`;
    default:
      return b.kind;
  }
}
