import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get, segment, type Workflow } from "../api/client";
import { useLive } from "../live";
import { Dag } from "../parts/dag";
import { Fault } from "../parts/fault";
import { Json } from "../parts/json";
import { type Column, Rows } from "../parts/rows";
import { When } from "../parts/words";
import { go, place, refine, to } from "../router";

const columns: readonly Column<Workflow>[] = [
  { name: "Workflow", size: "minmax(9rem, 1fr)", cell: (w) => <a href={to(["workflows", w.name])}>{w.name}</a> },
  { name: "Version", size: "5rem", cell: (w) => w.version },
  { name: "Versions", size: "5rem", minor: true, cell: (w) => w.versions.length },
  { name: "About", size: "minmax(9rem, 3fr)", cell: (w) => w.title ?? w.description ?? "" },
  { name: "Applied", size: "8rem", cell: (w) => <When at={w.applied_at} /> },
];

export function Workflows(): JSX.Element {
  const live = useLive<{ workflows: Workflow[] }>("workflows", (signal) => get("v1/workflows", { signal }), 5);
  return (
    <section class="screen">
      <header class="title">
        <h1>Workflows</h1>
      </header>
      <Fault of={live.error} />
      <Rows label="workflows" columns={columns} rows={live.data?.workflows ?? []} id={(w) => w.name} open={(w) => go(to(["workflows", w.name]))} empty={live.data ? "No workflow has been applied yet. Apply one: sagalog workflow apply FILE" : "Reading …"} />
    </section>
  );
}

const none = new Map();

export function WorkflowScreen({ name }: { name: string }): JSX.Element {
  const version = place.value.query.get("version") ?? "";
  const chosen = place.value.query.get("step") ?? undefined;
  const live = useLive<Workflow>(`workflow ${name} ${version}`, (signal) => get(`v1/workflows/${segment(name)}`, { query: { version }, signal }), 30);
  const w = live.data;
  const steps = useMemo(() => w?.steps ?? [], [w?.hash]);
  return (
    <section class="screen task">
      <header class="title">
        <h1>{name}</h1>
        {w && (
          <label>
            version{" "}
            <select value={String(w.version)} onChange={(e) => refine({ version: e.currentTarget.value })}>
              {w.versions.map((v) => (
                <option key={v}>{v}</option>
              ))}
            </select>
          </label>
        )}
        {w && <span class="faint">{w.current ? "current" : "not current"}</span>}
        <a href={to(["tasks"], { workflow: name })}>its tasks</a>
      </header>
      <Fault of={live.error} />
      {w?.description && <p>{w.description}</p>}
      {w && <Dag steps={steps} states={none} chosen={chosen} choose={(id) => refine({ step: id === chosen ? "" : id }, true)} />}
      {chosen && <Json of={definitionOf(w, chosen)} label={`definition of ${chosen}`} />}
      {w && (
        <details open>
          <summary>definition</summary>
          <Json of={w.definition} label="definition" />
        </details>
      )}
    </section>
  );
}

function definitionOf(w: Workflow | undefined, step: string): unknown {
  const d = w?.definition as { steps?: Record<string, unknown> } | undefined;
  return d?.steps?.[step];
}
