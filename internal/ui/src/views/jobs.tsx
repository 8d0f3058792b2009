import type { JSX } from "preact";
import { get, segment } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { useAct } from "../parts/act";
import { Acts } from "../parts/acts";
import { Fault } from "../parts/fault";
import { type Column, Rows } from "../parts/rows";
import { quote } from "../parts/terminal";
import { When } from "../parts/words";
import { place, refine } from "../router";

type Job = components["schemas"]["JobDocument"];

const filterText = (f: Job["filter"]): string =>
  Object.entries(f)
    .filter(([, v]) => v !== null && v !== undefined && v !== false)
    .map(([k, v]) => (k === "all" ? "all tasks" : `${k}:${Array.isArray(v) ? v.join(",") : String(v)}`))
    .join(" ");

/** The bulk jobs and, on the other tab, what operators did. */
export function Jobs(): JSX.Element {
  const acts = place.value.query.get("tab") === "acts";
  return (
    <section class="screen">
      <header class="title">
        <h1>Jobs</h1>
      </header>
      <nav class="tabs" aria-label="jobs or acts">
        <button type="button" aria-pressed={!acts} onClick={() => refine({ tab: "" })}>
          jobs
        </button>
        <button type="button" aria-pressed={acts} onClick={() => refine({ tab: "acts" })}>
          acts of operators
        </button>
      </nav>
      {acts ? <Acts /> : <JobList />}
    </section>
  );
}

function JobList(): JSX.Element {
  const live = useLive<{ jobs: Job[] }>("jobs", (signal) => get("v1/jobs", { signal }));
  const act = useAct(live.again);
  const columns: readonly Column<Job>[] = [
    { name: "Job", size: "minmax(9rem, 1.5fr)", cell: (j) => j.id },
    { name: "What", size: "7rem", cell: (j) => j.verb },
    { name: "Which tasks", size: "minmax(9rem, 2fr)", minor: true, cell: (j) => filterText(j.filter) },
    { name: "State", size: "6rem", cell: (j) => j.state },
    {
      name: "Progress",
      size: "minmax(8rem, 1.2fr)",
      cell: (j) => (
        <>
          <progress max={Math.max(1, j.matched)} value={j.matched - j.left} aria-label={`${j.matched - j.left} of ${j.matched}`} /> {j.matched - j.left} of {j.matched}
        </>
      ),
    },
    { name: "Refused", size: "5rem", cell: (j) => (j.refused ? <span class="state bad">{j.refused}</span> : 0) },
    { name: "By", size: "6rem", minor: true, cell: (j) => j.by ?? "-" },
    { name: "Started", size: "8rem", minor: true, cell: (j) => <When at={j.started_at} /> },
    {
      name: "",
      size: "5rem",
      cell: (j) =>
        act.button({
          verb: "stop",
          to: `job ${j.id}`,
          does: "No further requests are made. Those that were made are not undone.",
          reason: true,
          not: j.state === "running" ? undefined : "The job has ended.",
          path: () => `v1/jobs/${segment(j.id)}/stop`,
          cli: () => `job stop ${quote(j.id)}`,
        }),
    },
  ];
  return (
    <>
      <Fault of={live.error} />
      {act.dialog}
      <Rows label="jobs" columns={columns} rows={live.data?.jobs ?? []} id={(j) => j.id} empty={live.data ? "There are no jobs yet. Start one from the list of tasks, or: sagalog task retry --state parked" : "Reading …"} />
    </>
  );
}
