import type { JSX } from "preact";
import { get, segment } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { type Act, useAct } from "../parts/act";
import { Fault } from "../parts/fault";
import { type Column, Rows } from "../parts/rows";
import { quote } from "../parts/terminal";
import { State, When } from "../parts/words";
import { go, to } from "../router";

type Limit = components["schemas"]["LimitDocument"];
type Link = components["schemas"]["LimitLink"];

/** Pauses or resumes a limit. */
function turn(l: Limit): Act {
  const verb = l.paused ? "resume" : "pause";
  const does = l.paused ? "Permits are given again." : "No permit is given until the limit is resumed. What holds a permit goes on, and the others wait.";
  return { verb, to: `limit ${l.limit}`, does, reason: true, waits: true, path: () => `v1/limits/${segment(l.limit)}/${verb}`, cli: () => `limit ${verb} ${quote(l.limit)}` };
}

/** Changes a named limit, or applies a new one. */
function setting(l?: Limit): Act {
  return {
    verb: "set",
    to: l ? `limit ${l.limit}` : "a limit",
    text: l ? "set" : "set a limit …",
    does: "It takes effect at once, for running tasks too. Steps refer to it by limit: NAME.",
    method: "PUT",
    role: "admin",
    fields: [
      ...(l ? [] : [{ name: "limit", says: "Name", names: true, must: true }]),
      { name: "max", says: "Attempts at a time, from 1 to 100000; empty: only the rate limits them", number: true, was: l?.max ? String(l.max) : "" },
      { name: "rate", says: "Starts per unit of time, such as 50/s or 30/m; empty: only the maximum limits them", was: l?.rate ?? "" },
    ],
    path: (name) => `v1/limits/${segment(l?.limit ?? name)}`,
    cli: (name) => `limit set ${quote(l?.limit ?? name)}`,
  };
}

export function Limits(): JSX.Element {
  const live = useLive<{ limits: Limit[]; more?: number }>("limits", (signal) => get("v1/limits", { query: { all: true }, signal }));
  const act = useAct(live.again);
  const columns: readonly Column<Limit>[] = [
    { name: "Limit", size: "minmax(9rem, 2fr)", cell: (l) => <a href={to(["limits", l.limit])}>{l.limit}</a> },
    { name: "Kind", size: "7rem", minor: true, cell: (l) => (l.named ? "named" : "concurrency") },
    { name: "In use", size: "7rem", cell: (l) => `${l.held} of ${l.max || "any"}` },
    { name: "Rate", size: "6rem", minor: true, cell: (l) => l.rate ?? "-" },
    { name: "Waiting", size: "6rem", cell: (l) => l.waiting },
    { name: "Stopped holders", size: "minmax(8rem, 1fr)", cell: (l) => (l.halted ? <span class="state bad">{l.halted} parked or paused</span> : "") },
    { name: "State", size: "7rem", cell: (l) => (l.paused ? <span class="state wait">paused</span> : "open") },
    {
      name: "",
      size: "9rem",
      cell: (l) => (
        <span class="verbs">
          {act.button(turn(l))}
          {l.named && act.button(setting(l))}
        </span>
      ),
    },
  ];
  return (
    <section class="screen">
      <header class="title">
        <h1>Limits</h1>
        {act.button(setting())}
      </header>
      <Fault of={live.error} />
      {act.dialog}
      <Rows
        label="limits"
        columns={columns}
        rows={live.data?.limits ?? []}
        id={(l) => l.limit}
        open={(l) => go(to(["limits", l.limit]))}
        empty={live.data ? "There are no limits. Apply one: sagalog limit set bank --max 20, and write limit: bank in a step." : "Reading …"}
      />
    </section>
  );
}

const links: readonly Column<Link>[] = [
  { name: "Task", size: "minmax(9rem, 2fr)", cell: (x) => <a href={to(["tasks", x.task])}>{x.task}</a> },
  { name: "Step", size: "minmax(6rem, 1fr)", cell: (x) => (x.step ? `${x.step}${x.undo ? ", undo" : ""}` : "-") },
  { name: "State", size: "8rem", cell: (x) => (x.halted ? <span class="state bad">{x.halted}</span> : x.state ? <State of={x.state} /> : "-") },
  { name: "Since", size: "8rem", cell: (x) => <When at={x.since} /> },
  { name: "Priority", size: "5rem", minor: true, cell: (x) => x.priority ?? 0 },
];

export function LimitScreen({ name }: { name: string }): JSX.Element {
  const live = useLive<Limit>(`limit ${name}`, (signal) => get(`v1/limits/${segment(name)}`, { signal }));
  const act = useAct(live.again);
  const l = live.data;
  return (
    <section class="screen">
      <header class="title">
        <h1>{name}</h1>
        {l && (
          <>
            <span class="faint">
              {l.held} of {l.max || "any number"} in use{l.rate ? `, ${l.rate}` : ""}, {l.waiting} waiting
            </span>
            {act.button(turn(l))}
            {l.named && act.button(setting(l))}
          </>
        )}
      </header>
      <Fault of={live.error} />
      {act.dialog}
      {l?.paused && <div class="why">Paused{l.paused.by ? ` by ${l.paused.by}` : ""}{l.paused.reason ? `: ${l.paused.reason}` : ""}.</div>}
      <h2>Holders</h2>
      <Rows label="holders" columns={links} rows={l?.holders ?? []} id={(x) => `${x.task} ${x.step ?? ""} ${x.undo ?? ""}`} open={(x) => go(to(["tasks", x.task]))} empty={l ? "No permit is in use." : "Reading …"} />
      <h2>Waiting</h2>
      <Rows label="waiting" columns={links} rows={l?.waiters ?? []} id={(x) => `${x.task} ${x.step ?? ""} ${x.undo ?? ""}`} open={(x) => go(to(["tasks", x.task]))} empty={l ? "Nothing is waiting." : "Reading …"} />
    </section>
  );
}
