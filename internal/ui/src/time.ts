import { signal } from "@preact/signals";
import { now } from "./live";

/** Whether instants are shown in UTC instead of the browser's zone. */
export const utc = signal(localStorage.getItem("utc") === "1");

export function setUTC(on: boolean): void {
  utc.value = on;
  localStorage.setItem("utc", on ? "1" : "0");
}

/** A duration in two units: 3 m 20 s. */
export function span(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return pair(s, 60, "m", 1, "s");
  if (s < 86_400) return pair(s, 3600, "h", 60, "m");
  return pair(s, 86_400, "d", 3600, "h");
}

function pair(s: number, a: number, an: string, b: number, bn: string): string {
  const whole = Math.floor(s / a);
  const rest = Math.floor((s % a) / b);
  return rest === 0 ? `${whole} ${an}` : `${whole} ${an} ${rest} ${bn}`;
}

/** The names of the browser's zone by its offset, which differ in summer and winter. To ask for a name is slow, and lists show many instants. */
const zones = new Map<number, string>();

function zoneOf(d: Date): string {
  const offset = d.getTimezoneOffset();
  let name = zones.get(offset);
  if (name === undefined) {
    name = Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts(d).find((p) => p.type === "timeZoneName")?.value ?? "";
    zones.set(offset, name);
  }
  return name;
}

/** An instant as people read it in the chosen zone, to the millisecond. */
export function exact(at: string): string {
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return at;
  const iso = new Date(d.getTime() - (utc.value ? 0 : d.getTimezoneOffset() * 60_000)).toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, 23)} ${utc.value ? "UTC" : zoneOf(d)}`;
}

/** How long ago, or in how long. With from, how long before or after that. */
export function ago(at: string, from?: string): string {
  const ms = (from ? Date.parse(from) : now.value) - Date.parse(at);
  if (Number.isNaN(ms)) return at;
  if (from) return ms > 0 ? `${span(ms)} before` : `${span(-ms)} later`;
  if (Math.abs(ms) < 1000) return "now";
  return ms > 0 ? `${span(ms)} ago` : `in ${span(-ms)}`;
}
