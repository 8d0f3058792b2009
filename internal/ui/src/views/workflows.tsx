import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get, type Info, segment, type StepSummary, type Workflow } from "../api/client";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { seconds, type Stats } from "../parts/attempts";
import { Dag } from "../parts/dag";
import { Fault } from "../parts/fault";
import { times, useHeat } from "../parts/heat";
import { Json } from "../parts/json";
import { type Column, Rows } from "../parts/rows";
import { Start } from "../parts/start";
import { Versions } from "../parts/versions";
import { When } from "../parts/words";
import { go, place, refine, to } from "../router";

/** What happened to tasks of a workflow in the last hour, in a few words. */
function lately(rows: Stats["rows"]): string {
  if (rows.length === 0) return "no task";
  const sum = (of: (r: Stats["rows"][number]) => number): number => rows.reduce((n, r) => n + of(r), 0);
  const p95 = Math.max(...rows.map((r) => r.p95_s ?? -1)); // the highest of the parts: that of the whole hour is not above it
  const ways = [[sum((r) => r.started), "started"], [sum((r) => r.undone), "undone"], [sum((r) => r.parked), "parked"], [sum((r) => r.failed), "terminated"]] as const;
  return [...ways.filter(([n, w]) => n > 0 || w === "started").map(([n, w]) => `${n} ${w}`), ...(p95 >= 0 ? [`p95 ${seconds(p95)}`] : [])].join(", ");
}

export function Workflows(): JSX.Element {
  const live = useLive<{ workflows: Workflow[] }>("workflows", (signal) => get("v1/workflows", { signal }), 5);
  const stats = useLive<Stats>("stats of workflows", (signal) => get("v1/stats", { query: { since: "1h", every: times["1h"].every }, signal }), 10);
  const rows = stats.data?.rows;
  const columns: readonly Column<Workflow>[] = [
    { name: "Workflow", size: "minmax(9rem, 1fr)", cell: (w) => <a href={to(["workflows", w.name])}>{w.name}</a> },
    { name: "Version", size: "5rem", cell: (w) => w.version },
    { name: "Versions", size: "5rem", minor: true, cell: (w) => w.versions.length },
    { name: "Tasks, last hour", size: "minmax(11rem, 1.5fr)", minor: true, cell: (w) => (rows ? lately(rows.filter((r) => r.workflow === w.name)) : "") },
    { name: "About", size: "minmax(9rem, 2fr)", minor: true, cell: (w) => w.title ?? w.description ?? "" },
    { name: "Applied", size: "8rem", cell: (w) => <When at={w.applied_at} /> },
  ];
  return (
    <section class="screen">
      <header class="title">
        <h1>Workflows</h1>
      </header>
      <Fault of={live.error ?? stats.error} />
      <Rows label="workflows" columns={columns} rows={live.data?.workflows ?? []} id={(w) => w.name} open={(w) => go(to(["workflows", w.name]))} empty={live.data ? "No workflow has been applied yet. Apply one: sagalog workflow apply FILE" : "Reading …"} />
    </section>
  );
}

const none = new Map();
const tabs = [["steps", "steps"], ["start", "start a task"], ["versions", "versions"], ["definition", "definition"]] as const;

export function WorkflowScreen({ name }: { name: string }): JSX.Element {
  const { query } = place.value;
  const version = query.get("version") ?? "";
  const tab = query.get("tab") ?? "steps";
  const live = useLive<Workflow>(`workflow ${name} ${version}`, (signal) => get(`v1/workflows/${segment(name)}`, { query: { version }, signal }), 30);
  const info = useLive<Info>("info", (signal) => get("v1/info", { signal }), 60);
  const w = live.data;
  const show = (to: string) => () => refine({ tab: to === "steps" ? "" : to }, true);
  useKeys({
    n: { does: "start a task", run: show("start") },
    t: { does: "steps", run: show("steps") },
    v: { does: "versions", run: show("versions") },
    D: { does: "definition", run: show("definition") },
    // Escape in the form is for its fields: it must not leave what somebody has typed.
    ...(tab === "start" ? {} : { Escape: { does: "back to the list", run: () => go(to(["workflows"])) } }),
  });
  const [typed, setTyped] = useState(false); // the form keeps its content while another tab is shown
  if (tab === "start" && !typed) setTyped(true);
  return (
    <section class="screen task">
      <header class="title">
        <h1>{name}</h1>
        {w && (
          <label>
            version{" "}
            <select value={String(w.version)} onChange={(e) => refine({ version: e.currentTarget.value, from: "" })}>
              {w.versions.map((v) => (
                <option key={v}>{v}</option>
              ))}
            </select>
          </label>
        )}
        {w && <span class="faint">{w.current ? "current" : "not current"}</span>}
        {w && (
          <span class="faint">
            applied <When at={w.applied_at} />
          </span>
        )}
        <a href={to(["tasks"], { workflow: name })}>its tasks</a>
      </header>
      <Fault of={live.error} />
      {w?.description && <p>{w.description}</p>}
      <nav class="tabs" aria-label="parts of the workflow">
        {tabs.map(([id, text]) => (
          <button key={id} type="button" aria-pressed={tab === id} onClick={show(id)}>
            {text}
          </button>
        ))}
      </nav>
      {!w ? (
        !live.error && <p class="faint">Reading …</p>
      ) : tab === "start" ? null : tab === "versions" ? (
        <Versions of={w} />
      ) : tab === "definition" ? (
        <Json of={w.definition} label="definition" />
      ) : (
        <Steps of={w} />
      )}
      {w && typed && (
        <div hidden={tab !== "start"}>
          <Start key={`${w.hash} ${w.current}`} of={w} info={info.data} />
        </div>
      )}
    </section>
  );
}

/** The steps, each with its heat, and the definition of the chosen one. */
function Steps({ of: w }: { of: Workflow }): JSX.Element {
  const chosen = place.value.query.get("step") ?? undefined;
  const steps = useMemo<readonly StepSummary[]>(() => w.steps ?? [], [w.hash]);
  const heat = useHeat(w.name, steps);
  return (
    <>
      <Dag steps={steps} states={none} chosen={chosen} choose={(id) => refine({ step: id === chosen ? "" : id }, true)} notes={heat.notes} />
      {heat.legend}
      {chosen ? <Json of={definitionOf(w, chosen)} label={`definition of ${chosen}`} /> : <p class="faint">Choose a step to see its definition.</p>}
    </>
  );
}

function definitionOf(w: Workflow | undefined, step: string): unknown {
  const d = w?.definition as { steps?: Record<string, unknown> } | undefined;
  return d?.steps?.[step];
}
