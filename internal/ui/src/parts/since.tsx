import type { JSX } from "preact";
import type { components } from "../api/schema";
import { now } from "../live";
import { clock } from "./lasted";

const hours = { hour: 1, "6 hours": 6 } as const;
/** A node counts by the minute and forgets what is older than six hours, in ms: this much less is the whole time. */
const slack = 120_000;

/** Says since when the nodes have counted, if that is not the whole of the last hours: a start loses what was counted before. */
export function Since({ of, all }: { of: Pick<components["schemas"]["StatsDocument"], "since" | "partial"> | undefined; all: keyof typeof hours }): JSX.Element | null {
  if (!of) return null;
  const whole = now.value - Date.parse(of.since) >= hours[all] * 3_600_000 - slack;
  if (whole && !of.partial) return null;
  return (
    <p class="faint">
      {whole ? "" : `The counts begin at ${clock(of.since)}, when a node started, and do not cover the whole last ${all}. `}
      {of.partial ? "Some counts are missing." : ""}
    </p>
  );
}
