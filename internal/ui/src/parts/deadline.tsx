import type { JSX } from "preact";
import { now } from "../live";
import { ago, exact } from "../time";

/** How much of the time until a deadline has passed. */
export function Deadline({ from, by }: { from: string; by: string }): JSX.Element {
  const all = Date.parse(by) - Date.parse(from);
  const gone = Math.min(1, Math.max(0, all > 0 ? (now.value - Date.parse(from)) / all : 1));
  const words = gone < 1 ? `deadline ${ago(by)}` : `the deadline passed ${ago(by)}`;
  return (
    <p class={`deadline ${gone < 0.8 ? "run" : gone < 1 ? "wait" : "bad"}`} title={exact(by)}>
      <progress max={100} value={Math.round(100 * gone)} aria-label={`${Math.round(100 * gone)} % of the time until the deadline`} /> {words}
    </p>
  );
}
