import type { JSX } from "preact";
import { get, segment } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { type Act, useAct } from "../parts/act";
import { Fault } from "../parts/fault";
import { type Column, Rows } from "../parts/rows";
import { quote } from "../parts/terminal";
import { When, word } from "../parts/words";
import { go, to } from "../router";

export type Schedule = components["schemas"]["ScheduleDocument"];

const about = (s: Schedule, verb: string, does: string): Act => ({
  verb,
  to: `schedule ${s.schedule}`,
  text: verb,
  does,
  reason: true,
  waits: true,
  path: () => `v1/schedules/${segment(s.schedule)}/${verb}`,
  cli: () => `schedule ${verb} ${quote(s.schedule)}`,
});

export const when = (s: Schedule): string => `${s.cron ?? `every ${s.every}`}${s.time_zone ? ` ${s.time_zone}` : ""}`;

/** What can be done to a schedule. */
export const verbsOf = (s: Schedule): readonly Act[] => [
  about(s, "trigger", "Start a task now, as if it were due."),
  s.paused ? about(s, "resume", "It continues with the next due time. Use backfill for those that were missed.") : about(s, "pause", "No task is started until the schedule is resumed. Its running tasks go on."),
  {
    ...about(s, "backfill", "Start the tasks of past due times, up to 100. Tasks that were started before stay as they are."),
    fields: [
      { name: "since", says: "First due time, such as 2026-11-20T00:00:00Z", must: true },
      { name: "until", says: "Last due time", must: true, was: `${new Date().toISOString().slice(0, 19)}Z` },
    ],
  },
];

export function Schedules(): JSX.Element {
  const live = useLive<{ schedules: Schedule[] }>("schedules", (signal) => get("v1/schedules", { signal }), 5);
  const act = useAct(live.again);
  const columns: readonly Column<Schedule>[] = [
    { name: "Schedule", size: "minmax(9rem, 1.5fr)", cell: (s) => <a href={to(["schedules", s.schedule])}>{s.schedule}</a> },
    { name: "Workflow", size: "minmax(7rem, 1fr)", minor: true, cell: (s) => <a href={to(["workflows", s.workflow])}>{s.workflow}</a> },
    { name: "When", size: "minmax(8rem, 1fr)", minor: true, cell: when },
    { name: "Next", size: "8rem", cell: (s) => (s.paused ? <span class="state wait">paused</span> : <When at={s.next[0]} />) },
    { name: "Last", size: "minmax(8rem, 1fr)", cell: (s) => (s.last ? <a href={to(["tasks", s.last.task])}>{word(s.last.state ?? "not ended")}</a> : "-") },
    { name: "Fired", size: "4rem", minor: true, cell: (s) => s.fired },
    { name: "Skipped", size: "5rem", minor: true, cell: (s) => s.skipped },
    { name: "Missed", size: "5rem", minor: true, cell: (s) => (s.missed ? <span class="state bad">{s.missed}</span> : 0) },
    { name: "Failed", size: "5rem", minor: true, cell: (s) => (s.failed ? <span class="state bad">{s.failed}</span> : 0) },
    {
      name: "",
      size: "15rem",
      cell: (s) => <span class="verbs">{verbsOf(s).map(act.button)}</span>,
    },
  ];
  return (
    <section class="screen">
      <header class="title">
        <h1>Schedules</h1>
      </header>
      <Fault of={live.error} />
      {act.dialog}
      <Rows
        label="schedules"
        columns={columns}
        rows={live.data?.schedules ?? []}
        id={(s) => s.schedule}
        open={(s) => go(to(["schedules", s.schedule]))}
        empty={
          live.data ? (
            <>
              <p>There are no schedules. Apply one: sagalog schedule apply FILE</p>
              <pre>{"schedule: daily-report\nworkflow: report\ncron: 0 2 * * MON-FRI\ntime_zone: Europe/Vienna"}</pre>
            </>
          ) : (
            "Reading …"
          )
        }
      />
    </section>
  );
}
