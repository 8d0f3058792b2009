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

/**
 * The attempts of each step over time: above the line what was done, below it what took it back. Backoffs between attempts are drawn thin.
 */
export function Timeline({ events, order, ended, chosen, choose }: { events: readonly HistoryEvent[]; order: readonly string[]; ended: boolean; chosen: string | undefined; choose: (step: string) => void }): JSX.Element {
  const first = events[0];
  if (!first) return <p class="faint">Nothing has happened yet.</p>;
  const last = events[events.length - 1];
  const from = Date.parse(first.time);
  const to = Math.max(from + 1, ended && last ? Date.parse(last.time) : now.value);
  const all = bars(events, to);
  const steps = [...new Set([...order, ...all.map((b) => b.step)])].filter((s) => all.some((b) => b.step === s));
  const x = (t: number): number => (100 * (Math.min(Math.max(t, from), to) - from)) / (to - from);
  return (
    <div class="timeline" role="list" aria-label="timeline of attempts">
      {steps.map((step) => (
        <div key={step} role="listitem" class={`lane${step === chosen ? " chosen" : ""}`}>
          <button type="button" class="link name" onClick={() => choose(step)}>
            {step}
          </button>
          <div class="line">
            {all
              .filter((b) => b.step === step)
              .map((b) => {
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
