import type { JSX } from "preact";
import type { ListedTask } from "../api/client";
import { now } from "../live";
import { exact } from "../time";
import { Took } from "./words";

/** An instant on a clock, to the second, or with its day unless that is today. */
export function clock(at: string): string {
  const [day = "", time = ""] = exact(at).split(" ");
  const [today] = exact(new Date(now.value).toISOString()).split(" ");
  return day === today ? time.slice(0, 8) : `${day} ${time.slice(0, 5)}`;
}

/** How long a task has taken. A parked one takes no longer: it stands, and since when is what counts. */
export function Lasted({ of: t }: { of: Pick<ListedTask, "state" | "parked_at" | "submitted_at" | "ended_at"> }): JSX.Element {
  if (t.state !== "error") return <Took from={t.submitted_at} to={t.ended_at} />;
  if (!t.parked_at) return <span>parked</span>;
  return (
    <time dateTime={t.parked_at} title={exact(t.parked_at)}>
      parked since {clock(t.parked_at).replace(/(:\d\d):\d\d$/, "$1")}
    </time>
  );
}
