import type { JSX } from "preact";
import { needs } from "../access";
import { get, segment } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { useAct } from "../parts/act";
import { Fault } from "../parts/fault";
import { type Column, Rows } from "../parts/rows";
import { When, word } from "../parts/words";
import { go, to } from "../router";

type Schedule = components["schemas"]["ScheduleDocument"];

export function Schedules(): JSX.Element {
  const live = useLive<{ schedules: Schedule[] }>("schedules", (signal) => get("v1/schedules", { signal }), 5);
  const act = useAct(live.again);
  const columns: readonly Column<Schedule>[] = [
    { name: "Schedule", size: "minmax(9rem, 1.5fr)", cell: (s) => s.schedule },
    { name: "Workflow", size: "minmax(7rem, 1fr)", minor: true, cell: (s) => <a href={to(["workflows", s.workflow])}>{s.workflow}</a> },
    { name: "When", size: "minmax(8rem, 1fr)", minor: true, cell: (s) => `${s.cron ?? `every ${s.every}`}${s.time_zone ? ` ${s.time_zone}` : ""}` },
    { name: "Next", size: "8rem", cell: (s) => (s.paused ? <span class="state wait">paused</span> : <When at={s.next[0]} />) },
    { name: "Last", size: "minmax(8rem, 1fr)", cell: (s) => (s.last ? <a href={to(["tasks", s.last.task])}>{word(s.last.state ?? "running")}</a> : "-") },
    { name: "Fired", size: "4rem", minor: true, cell: (s) => s.fired },
    { name: "Skipped", size: "5rem", minor: true, cell: (s) => s.skipped },
    { name: "Missed", size: "5rem", minor: true, cell: (s) => (s.missed ? <span class="state bad">{s.missed}</span> : 0) },
    { name: "Failed", size: "5rem", minor: true, cell: (s) => (s.failed ? <span class="state bad">{s.failed}</span> : 0) },
    {
      name: "",
      size: "11rem",
      cell: (s) => (
        <span class="verbs">
          <button type="button" {...needs("operator")} onClick={() => act.run(`v1/schedules/${segment(s.schedule)}/trigger`)} aria-label={`trigger ${s.schedule}`}>
            trigger
          </button>
          <button type="button" {...needs("operator")} onClick={() => act.run(`v1/schedules/${segment(s.schedule)}/${s.paused ? "resume" : "pause"}`)} aria-label={`${s.paused ? "resume" : "pause"} ${s.schedule}`}>
            {s.paused ? "resume" : "pause"}
          </button>
        </span>
      ),
    },
  ];
  return (
    <section class="screen">
      <header class="title">
        <h1>Schedules</h1>
        {act.said}
      </header>
      <Fault of={act.fault ?? live.error} />
      <Rows
        label="schedules"
        columns={columns}
        rows={live.data?.schedules ?? []}
        id={(s) => s.schedule}
        open={(s) => go(to(["tasks"], { schedule: s.schedule }))}
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
