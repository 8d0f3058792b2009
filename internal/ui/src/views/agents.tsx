import type { JSX } from "preact";
import { type Agent, get, segment } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { type Act, useAct } from "../parts/act";
import { heats, words } from "../parts/attempts";
import { Fault } from "../parts/fault";
import { useStepStats } from "../parts/heat";
import { Since } from "../parts/since";
import { useNeeds, workflowsOf } from "../parts/needs";
import { type Column, Rows } from "../parts/rows";
import { quote } from "../parts/terminal";
import { When } from "../parts/words";
import { go, to } from "../router";

export type Answer = components["schemas"]["AgentsAnswerBody"];

export interface Group {
  name: string;
  instances: readonly Agent[];
  paused: { by?: string; reason?: string; since?: string } | undefined;
  missing: readonly components["schemas"]["Missing"][];
}

const sum = (list: readonly Agent[], of: (a: Agent) => number): number => list.reduce((n, a) => n + of(a), 0);

export function groups(a: Answer): Group[] {
  const names = new Set([...a.agents.map((i) => i.agent), ...(a.paused ?? []).map((p) => p.agent), ...(a.missing ?? []).map((m) => m.agent)]);
  return [...names]
    .map((name) => ({
      name,
      instances: a.agents.filter((i) => i.agent === name),
      paused: a.paused?.find((p) => p.agent === name),
      missing: (a.missing ?? []).filter((m) => m.agent === name),
    }))
    .sort((x, y) => y.missing.length - x.missing.length || x.name.localeCompare(y.name));
}

export function Health({ of: g }: { of: Group }): JSX.Element {
  if (g.missing.length > 0) return <span class="state bad">needed, but no instance offers: {[...new Set(g.missing.map((m) => m.operation))].join(", ")}</span>;
  if (g.paused) return <span class="state wait">paused{g.paused.reason ? `: ${g.paused.reason}` : ""}</span>;
  if (g.instances.length === 0) return <span class="state none">no instance</span>;
  const bad = g.instances.filter((i) => i.health && i.health !== "healthy").length;
  return bad > 0 ? <span class="state bad">{bad} not healthy</span> : <span class="state good">healthy</span>;
}

export function pauses(g: Group): Act {
  const verb = g.paused ? "resume" : "pause";
  const does = g.paused ? "Attempts start again." : "No attempt starts at this agent until it is resumed. Running attempts go on, and other steps wait.";
  return { verb, to: `agent ${g.name}`, does, reason: true, path: () => `v1/agents/${segment(g.name)}/${verb}`, cli: () => `agents ${verb} ${quote(g.name)}` };
}

function NeededBy({ workflows }: { workflows: readonly string[] }): JSX.Element {
  return (
    <span title={workflows.join(", ")}>
      {workflows.map((w, i) => (
        <span key={w}>
          {i > 0 && ", "}
          <a href={to(["workflows", w])}>{w}</a>
        </span>
      ))}
    </span>
  );
}

export function Agents(): JSX.Element {
  const live = useLive<Answer>("agents", (signal) => get("v1/agents", { signal }));
  const act = useAct(live.again);
  const needs = useNeeds();
  const stats = useStepStats("", "1h");
  const doer = new Map((needs.data?.all ?? []).filter((n) => n.does).map((n) => [`${n.workflow} ${n.step}`, n.agent]));
  const attempts = heats(stats.data?.rows ?? [], (r) => doer.get(`${r.workflow} ${r.step ?? ""}`) ?? "");
  const columns: readonly Column<Group>[] = [
    { name: "Agent", size: "minmax(8rem, 1.5fr)", cell: (g) => <a href={to(["agents", g.name])}>{g.name}</a> },
    { name: "Health", size: "minmax(9rem, 2fr)", cell: (g) => <Health of={g} /> },
    { name: "Instances", size: "6rem", cell: (g) => g.instances.length },
    { name: "In flight", size: "6rem", cell: (g) => sum(g.instances, (i) => i.in_flight) },
    { name: "Capacity", size: "6rem", minor: true, cell: (g) => sum(g.instances, (i) => i.capacity) },
    { name: "Attempts, last hour", size: "11rem", minor: true, cell: (g) => (stats.data && needs.data ? words(attempts.get(g.name)) : "") },
    { name: "Needed by", size: "minmax(7rem, 1fr)", minor: true, cell: (g) => <NeededBy workflows={workflowsOf(needs.data, g.name)} /> },
    { name: "Operations", size: "minmax(6rem, 1fr)", minor: true, cell: (g) => [...new Set(g.instances.flatMap((i) => i.operations))].join(", ") },
    { name: "Last seen", size: "8rem", minor: true, cell: (g) => <When at={g.instances.map((i) => i.last_seen ?? "").sort().at(-1)} /> },
    { name: "", size: "6rem", cell: (g) => act.button(pauses(g)) },
  ];
  return (
    <section class="screen">
      <header class="title">
        <h1>Agents</h1>
      </header>
      <Since of={stats.data} all="hour" />
      <Fault of={live.error ?? needs.error ?? stats.error} />
      {act.dialog}
      <Rows label="agents" columns={columns} rows={live.data ? groups(live.data) : []} id={(g) => g.name} open={(g) => go(to(["agents", g.name]))} empty={live.data ? "No agent has announced itself. Start one: sagalog serve --roles agent --brokers HOST:PORT --agents DIR" : "Reading …"} />
    </section>
  );
}
