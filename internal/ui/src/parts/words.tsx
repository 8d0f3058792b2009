import type { JSX } from "preact";
import type { Step, Task, Waiting } from "../api/client";
import { ago, exact, span } from "../time";
import { now } from "../live";
import { manual } from "../router";

/** What each state is called, and the kind of its colour. A colour never stands without its word. */
const states: Record<string, [word: string, tone: string]> = {
  pending: ["waiting to start", "wait"],
  processing: ["running", "run"],
  processed: ["processed", "good"],
  undoing: ["undoing", "undo"],
  undone: ["undone", "undone"],
  error: ["parked", "bad"],
  terminated: ["terminated", "bad"],
  rejected: ["not accepted", "bad"],
  not_started: ["not started", "none"],
  running: ["running", "run"],
  waiting: ["waiting", "wait"],
  completed: ["completed", "good"],
  failed: ["failed", "bad"],
  timed_out: ["timed out", "bad"],
  skipped: ["skipped", "none"],
  undo_failed: ["undo failed", "bad"],
};

export const word = (state: string): string => states[state]?.[0] ?? state.replaceAll("_", " ");
export const tone = (state: string): string => states[state]?.[1] ?? "none";

/** Shown as the state of a step, and of its undo, if an operator skipped the undo: the effect of the step remains. */
export const effectLeft = "skipped (effect left)";
export const wordOfStep = (s: Step): string => (s.undo?.skipped ? effectLeft : word(s.state));
export const toneOfStep = (s: Step): string => (s.undo?.skipped ? "wait" : tone(s.state));
export const wordOfUndo = (u: NonNullable<Step["undo"]>): string => (u.skipped ? effectLeft : word(u.state));

export function State({ of, paused }: { of: string; paused?: boolean }): JSX.Element {
  return (
    <span class={`state ${tone(of)}`}>
      {word(of)}
      {paused ? ", paused" : ""}
    </span>
  );
}

/** An instant, relative to now, with the exact one on hover. */
export function When({ at }: { at: string | undefined }): JSX.Element {
  if (!at) return <span class="faint">-</span>;
  return (
    <time dateTime={at} title={exact(at)}>
      {ago(at)}
    </time>
  );
}

/** How long something has taken, or takes already. */
export function Took({ from, to }: { from: string | undefined; to: string | undefined }): JSX.Element {
  if (!from) return <span class="faint">-</span>;
  return <span title={exact(from) + (to ? ` to ${exact(to)}` : "")}>{span((to ? Date.parse(to) : now.value) - Date.parse(from))}</span>;
}

const kinds: Record<Waiting["kind"], string> = {
  agent: "an instance of its agent",
  capacity: "a free place at its agent",
  limit: "a permit of its limit",
  concurrency: "a permit of its concurrency key",
  signal: "a signal",
  child: "the task that it started",
  sleep: "the end of its sleep",
  retry: "its next attempt",
  cool_down: "the end of its cool-down",
  quiet: "the time after which no unanswered request can take effect",
  paused: "an operator to resume it",
  not_before: "the time before which it must not start",
  operator: "an operator to act on it",
  key: "a key that opens its sealed content",
  owner: "the owner of its partition to plan it",
};

/** A step and what it waits for, in a few words: charge: agent, do of card. */
export const briefly = (w: Waiting): string => `${w.step ? `${w.step}: ` : ""}${w.kind.replaceAll("_", " ")}${w.for ? `, ${w.for}` : ""}`;

/** One sentence that says what is being waited for, now or as of an instant. */
export function sentence(w: Waiting, asOf?: string): string {
  let s = `${w.step ? `Step ${w.step}` : "The task"} is waiting for ${kinds[w.kind]}`;
  if (w.for) s += `: ${w.for}`;
  if (w.since) s += `. It began to wait ${ago(w.since, asOf)}`;
  if (w.until) s += `. Due ${ago(w.until, asOf)}`;
  return s.endsWith(".") ? s : `${s}.`;
}

/** Why a task is where it is, and the kind of what it waits for, if it waits. */
export interface Reason {
  words: string;
  kind: Waiting["kind"] | undefined;
}

export function why(t: Task): Reason[] {
  const waits = (t.waiting_for ?? []).map((w) => ({ words: sentence(w, t.at?.time), kind: w.kind }));
  if (t.state === "error" || t.state === "undone" || t.state === "terminated" || t.state === "rejected") return t.reason ? [{ words: t.reason, kind: waits[0]?.kind }, ...waits.slice(1)] : waits;
  return waits;
}

/** A link to the section of a document that says what a kind of waiting or of alert means, and what to do. */
export function Meaning({ of: kind, at }: { of: string; at: "waiting" | "alerts" }): JSX.Element {
  return (
    <a href={manual(at, kind)} aria-label={`what ${kind.replaceAll("_", " ")} means`}>
      what this means
    </a>
  );
}
