import type { JSX } from "preact";
import { type Agent, get, type ListedTask } from "../api/client";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { useAct } from "../parts/act";
import { heats, words } from "../parts/attempts";
import { Fault } from "../parts/fault";
import { useStepStats } from "../parts/heat";
import { Since } from "../parts/since";
import { type Need, useNeeds } from "../parts/needs";
import { type Column, Rows } from "../parts/rows";
import { sentence, When } from "../parts/words";
import { go, to } from "../router";
import { type Answer, groups, Health, pauses } from "./agents";

const columns: readonly Column<Agent>[] = [
  { name: "Instance", size: "minmax(8rem, 2fr)", cell: (i) => i.instance },
  { name: "Health", size: "7rem", cell: (i) => <span class={`state ${i.health && i.health !== "healthy" ? "bad" : "good"}`}>{i.health ?? "healthy"}</span> },
  { name: "In flight", size: "6rem", cell: (i) => `${i.in_flight} of ${i.capacity}` },
  { name: "Operations", size: "minmax(6rem, 1fr)", minor: true, cell: (i) => i.operations.join(", ") },
  { name: "Node", size: "minmax(5rem, 1fr)", minor: true, cell: (i) => i.node ?? "" },
  { name: "Last seen", size: "8rem", minor: true, cell: (i) => <When at={i.last_seen} /> },
];

/** The states of tasks that may wait for an agent. */
const live = ["pending", "processing", "undoing"];

/** One agent: its instances, the steps that need it, and the tasks that wait for it. */
export function AgentScreen({ name }: { name: string }): JSX.Element {
  const agents = useLive<Answer>("agents", (signal) => get("v1/agents", { signal }));
  const needs = useNeeds();
  const act = useAct(agents.again);
  useKeys({ Escape: { does: "back to the list", run: () => go(to(["agents"])) } });
  const group = agents.data && (groups(agents.data).find((g) => g.name === name) ?? { name, instances: [], paused: undefined, missing: [] });
  const mine = (needs.data?.all ?? []).filter((n) => n.agent === name);
  return (
    <section class="screen task">
      <header class="title">
        <h1>{name}</h1>
        {group && <Health of={group} />}
        {group && <span class="verbs">{act.button(pauses(group))}</span>}
      </header>
      {act.dialog}
      <Fault of={agents.error ?? needs.error} />
      <Rows label="instances" columns={columns} rows={group?.instances ?? []} id={(i) => i.instance} empty={agents.data ? "No instance has announced itself." : "Reading …"} />
      <Steps of={mine} left={needs.data?.left ?? 0} />
      <Waiting of={mine} agent={name} />
    </section>
  );
}

/** The steps that need the agent, and what happened to their attempts. */
function Steps({ of: mine, left }: { of: readonly Need[]; left: number }): JSX.Element {
  const stats = useStepStats("", "1h");
  const all = heats(stats.data?.rows ?? [], (r) => `${r.workflow} ${r.step ?? ""}`);
  return (
    <section class="card" aria-label="steps that need it">
      <h2>Steps that need it</h2>
      <Since of={stats.data} all="hour" />
      <Fault of={stats.error} />
      {mine.length === 0 ? (
        <p class="faint">No current version of a workflow needs it.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Workflow</th>
              <th scope="col">Step</th>
              <th scope="col">Attempts, last hour</th>
              <th scope="col">Its tasks</th>
            </tr>
          </thead>
          <tbody>
            {mine.map((n) => (
              <tr key={`${n.workflow} ${n.step}`}>
                <td>
                  <a href={to(["workflows", n.workflow])}>{n.workflow}</a>
                </td>
                <th scope="row">
                  {n.step}
                  {n.does ? "" : " (undo)"}
                </th>
                <td>{stats.data ? words(all.get(`${n.workflow} ${n.step}`)) : ""}</td>
                <td>
                  <a href={to(["tasks"], { workflow: n.workflow, state: live.join(",") })}>live of {n.workflow}</a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {left > 0 && <p class="faint">{left} workflows were not looked at.</p>}
    </section>
  );
}

/** So many pages of the list are read at most, each of which looks at so many live tasks. */
const mostPages = 3;
const looked = 1000;
/** So many that wait are shown. */
const shown = 50;

interface Waiter {
  task: string;
  words: string;
}

function Waiting({ of: mine, agent }: { of: readonly Need[]; agent: string }): JSX.Element {
  const found = useLive<{ tasks: ListedTask[]; more: boolean }>(
    `tasks that wait for ${agent}`,
    async (signal) => {
      const tasks: ListedTask[] = [];
      let cursor: string | undefined;
      for (let i = 0; i < mostPages && tasks.length <= shown; i++) {
        const page = await get<{ tasks: ListedTask[]; next?: string }>("v1/tasks", { query: { agent, fields: "id,workflow,state,waiting_for", limit: looked, cursor }, signal });
        tasks.push(...page.tasks);
        cursor = page.next;
        if (cursor === undefined) break;
      }
      return { tasks, more: cursor !== undefined };
    },
    5,
  );
  const waiters = (found.data?.tasks ?? []).flatMap((t) => waits(t, mine));
  return (
    <section class="card" aria-label="tasks that wait for it">
      <h2>Tasks that wait for it</h2>
      <Fault of={found.error} />
      {waiters.length === 0 ? (
        <p class="faint">{found.data ? "None." : "Reading …"}</p>
      ) : (
        <ul class="needs">
          {waiters.slice(0, shown).map((w) => (
            <li key={`${w.task} ${w.words}`}>
              <a href={to(["tasks", w.task])}>{w.task}</a> <span class="faint">{w.words}</span>
            </li>
          ))}
        </ul>
      )}
      {(waiters.length > shown || found.data?.more) && (
        <p>
          <a href={to(["tasks"], { agent })}>All tasks that wait for it</a>
        </p>
      )}
    </section>
  );
}

/** What a task waits for at a step that needs the agent. */
const waits = (t: ListedTask, mine: readonly Need[]): Waiter[] =>
  (t.waiting_for ?? []).filter((w) => ["agent", "capacity", "paused"].includes(w.kind) && mine.some((n) => n.workflow === t.workflow && n.step === w.step)).map((w) => ({ task: t.id, words: sentence(w) }));
