import type { components } from "../api/schema";

export type Stats = components["schemas"]["StatsDocument"];

/** What happened to the attempts of a step. */
export interface Heat {
  attempts: number;
  failed: number;
  timedOut: number;
  /** In seconds; absent if none has ended. The highest of the parts: that of the whole time is not above it. */
  p95?: number;
}

/** Adds up the parts of each step. */
export function heats(rows: Stats["rows"], key: (r: Stats["rows"][number]) => string): Map<string, Heat> {
  const by = new Map<string, Heat>();
  for (const r of rows) {
    const h = by.get(key(r)) ?? { attempts: 0, failed: 0, timedOut: 0 };
    h.attempts += Math.max(r.started, 0);
    h.failed += r.failed;
    h.timedOut += r.timed_out;
    if (r.p95_s !== undefined) h.p95 = Math.max(h.p95 ?? 0, r.p95_s);
    by.set(key(r), h);
  }
  return by;
}

const faults = (h: Heat): number => h.failed + h.timedOut;
export const share = (h: Heat): number => (faults(h) === 0 ? 0 : Math.min(1, faults(h) / Math.max(h.attempts, faults(h))));
export const seconds = (s: number): string => (s >= 100 ? `${s.toFixed(0)} s` : s < 0.1 ? `${(1000 * s).toFixed(0)} ms` : `${Number(s.toPrecision(2))} s`);
/** From so many attempts on, a share of them is a number to go by. */
const enough = 20;
const percent = (x: number): string => (x === 0 ? "0 %" : x < 0.01 ? "< 1 %" : `${Math.round(100 * x)} %`);

/** A few words about a step: its box is small. */
export function words(h: Heat | undefined): string {
  if (!h || (h.attempts === 0 && faults(h) === 0)) return "no attempt";
  const all = Math.max(h.attempts, faults(h));
  return `${all < enough ? `${faults(h)} of ${all}` : percent(share(h))} failed${h.p95 === undefined ? "" : `, p95 ${seconds(h.p95)}`}`;
}
