import type { HistoryEvent } from "../api/client";

/** A bar of the timeline: an attempt, or a time in which nothing ran and why. */
export interface Bar {
  step: string;
  operation: "do" | "undo";
  kind: "do" | "undo" | "retry" | "cool_down" | "sleep" | "signal";
  /** The attempt; of a wait between attempts, the one before it. */
  attempt: number;
  run: number;
  from: number;
  /** Absent while it goes on. */
  to?: number;
  outcome: "running" | "completed" | "failed" | "timed_out" | "waiting";
  says: string;
  /** Of a wait between attempts: the attempt that ended it, and until when it was to last. */
  next?: number;
  due?: number;
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
    if (!between(b)) b.outcome = outcome; // what ends a wait says nothing of it
    if (says) b.says = says;
    open.delete(key);
  };
  const begin = (key: string, b: Bar): void => {
    const before = open.get(key);
    if (before && between(before)) before.next = b.attempt;
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
        begin(key, { step, operation, kind: v.action, attempt: e.attempt ?? 0, run, from: at, outcome: "waiting", says: "", due: Date.parse(v.at) });
      }
    };
    switch (e.type) {
      case "StepStarted":
      case "CompensationStarted":
        begin(key, { step, operation, kind: operation, attempt: e.attempt ?? 1, run, from: at, outcome: "running", says: "" });
        break;
      case "WaitStarted":
        begin(key, { step, operation, kind: Array.isArray(d["signals"]) ? "signal" : "sleep", attempt: 0, run, from: at, outcome: "waiting", says: Array.isArray(d["signals"]) ? `waits for ${(d["signals"] as string[]).join(" or ")}` : "sleeps" });
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
          if (!open.has(key)) begin(key, { step, operation, kind: "undo", attempt: 0, run, from: at, outcome: "waiting", says: "" });
          end(key, at, "waiting", "skipped by hand: what the step did is left");
        } else end(key, at, "waiting", "skipped");
        break;
    }
  }
  for (const b of open.values()) if (b.outcome === "waiting" && until < b.from) b.to = b.from;
  return list;
}

/** Whether nothing of the step ran: it waited for its next attempt. */
export const between = (b: Bar): boolean => b.kind === "retry" || b.kind === "cool_down";

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
