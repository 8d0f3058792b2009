import type { JSX } from "preact";
import type { HistoryEvent } from "../api/client";
import { now } from "../live";
import { exact, span } from "../time";
import { type Bar, bars, between, merged } from "./bars";

/**
 * The attempts of each step over time: above the line what was done, below it what took it back. Waits between attempts are drawn thin, in the lane
 * of the attempts. A short attempt is drawn as wide as can be seen.
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
              const label = labelOf(b, to);
              return (
                <span
                  key={`${b.operation} ${b.kind} ${b.run} ${b.attempt} ${b.from}`}
                  class={`bar ${b.operation} ${b.kind} ${b.outcome}${b.to === undefined ? " open" : ""}`}
                  style={{ left: `min(${x(b.from)}%, 100% - 4px)`, width: `max(4px, ${x(b.to ?? to) - x(b.from)}%)` }}
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

/** What a bar says on hover and to a screen reader. A bar without an end lasts until the instant. */
function labelOf(b: Bar, until: number): string {
  const lasted = span((b.to ?? until) - b.from);
  const from = `from ${exact(new Date(b.from).toISOString())}${b.says ? `: ${b.says}` : ""}`;
  if (!between(b)) return `${nameOf(b)}: ${b.kind === "undo" && b.outcome === "waiting" ? "skipped" : b.outcome.replace("_", " ")}, ${lasted} ${from}`;
  const cools = b.kind === "cool_down" ? ", its cool-down," : "";
  if (b.to === undefined && b.due !== undefined) return `waits ${span(b.due - b.from)}${cools} before attempt ${b.attempt + 1} ${from}`;
  return `waits ${lasted}${cools} ${b.next === undefined ? `after attempt ${b.attempt}` : `before attempt ${b.next}`} ${from}`;
}

function nameOf(b: Bar): string {
  if (b.attempts !== undefined) return `${b.attempts} ${b.kind === "undo" ? "undos of items" : "attempts at items"}`;
  switch (b.kind) {
    case "do":
      return `attempt ${b.attempt}`;
    case "undo":
      return b.attempt === 0 ? "undo" : `undo, attempt ${b.attempt}`;
    default:
      return b.kind;
  }
}
