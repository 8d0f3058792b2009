import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { lacking, needs } from "../access";
import { type CallError, get, type ListedTask } from "../api/client";
import { useLive } from "../live";
import { type Column, Rows } from "../parts/rows";
import { sentence, State, Took, When } from "../parts/words";
import { go, place, refine, to } from "../router";
import { JobDialog } from "../parts/jobs";
import { Bulk } from "../parts/verbs";
import { Fault } from "../parts/fault";

const tabs: readonly (readonly [name: string, states: readonly string[]])[] = [
  ["All", []],
  ["Running", ["processing"]],
  ["Waiting to start", ["pending"]],
  ["Undoing", ["undoing"]],
  ["Parked", ["error"]],
  ["Ended", ["processed", "undone", "terminated"]],
];

/** The parameters of the list that the address bar holds, under their names in the API. */
export const filters = ["state", "workflow", "label", "since", "until", "schedule", "failed_step", "error_code", "older_than"] as const;

interface Page {
  tasks: ListedTask[];
  next?: string;
  missing?: { partition: number; reason: string }[];
}

const fields = "id,workflow,version,state,priority,labels,submitted_at,updated_at,ended_at,failure_count,reason,paused,run,waiting_for";
const size = 200;
const most = 10_000;

const columns: readonly Column<ListedTask>[] = [
  { name: "Task", size: "minmax(9rem, 2fr)", cell: (t) => <a href={to(["tasks", t.id])}>{t.id}</a> },
  { name: "Workflow", size: "minmax(7rem, 1.2fr)", minor: true, cell: (t) => `${t.workflow} @${t.version}` },
  { name: "State", size: "minmax(7rem, .9fr)", cell: (t) => <State of={t.state} paused={t.paused !== undefined} /> },
  { name: "Why", size: "minmax(8rem, 3fr)", minor: true, cell: (t) => <Why of={t} /> },
  { name: "Failures", size: "5rem", minor: true, cell: (t) => t.failure_count || "" },
  { name: "Labels", size: "minmax(6rem, 1fr)", minor: true, cell: (t) => Object.entries(t.labels ?? {}).map(([k, v]) => `${k}:${v}`).join(" ") },
  { name: "Took", size: "6rem", minor: true, cell: (t) => <Took from={t.submitted_at} to={t.ended_at} /> },
  { name: "Changed", size: "8rem", cell: (t) => <When at={t.updated_at} /> },
];

/** Why a task is where it is, in a few words: the reason of its state, or what its first waiting step waits for. */
function Why({ of: t }: { of: ListedTask }): JSX.Element {
  const waits = (t.waiting_for ?? []).map((w) => sentence(w));
  const words = t.reason ?? waits[0] ?? "";
  return (
    <span title={[t.reason, ...waits].filter(Boolean).join("\n")}>
      {words}
      {!t.reason && waits.length > 1 ? ` (and ${waits.length - 1} more)` : ""}
    </span>
  );
}

export function Tasks(): JSX.Element {
  const query = place.value.query;
  const asked: Record<string, readonly string[]> = {};
  for (const f of filters) if (query.has(f)) asked[f] = query.getAll(f);
  const key = JSON.stringify(asked);
  const live = useLive<Page>(`tasks ${key}`, (signal) => get("v1/tasks", { query: { ...asked, fields, limit: size }, signal }));
  const [older, setOlder] = useState<{ key: string; tasks: ListedTask[]; next: string | undefined; error?: CallError }>({ key, tasks: [], next: undefined });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [job, setJob] = useState(false);
  useEffect(() => setSelected(new Set()), [key]);
  const { state: _, ...others } = asked;
  const counts = useLive<{ counts: { key: string; count: number }[]; partial?: boolean }>(`counts ${JSON.stringify(others)}`, (signal) => get("v1/counts", { query: { ...others, by: "state" }, signal }), 2);
  const count = (of: readonly string[]): string => {
    if (!counts.data) return "";
    const n = counts.data.counts.filter((c) => of.length === 0 || of.includes(c.key)).reduce((sum, c) => sum + c.count, 0);
    return ` ${n.toLocaleString()}${counts.data.partial ? "+" : ""}`;
  };

  const fresh = live.data?.tasks ?? [];
  const extra = older.key === key ? older.tasks : [];
  const seen = new Set(fresh.map((t) => t.id));
  const rows = [...fresh, ...extra.filter((t) => !seen.has(t.id))];
  const next = extra.length > 0 ? older.next : live.data?.next;
  const more =
    next && rows.length < most
      ? () => {
          get<Page>("v1/tasks", { query: { ...asked, fields, limit: size, cursor: next } }).then(
            (p) => setOlder((o) => ({ key, tasks: [...(o.key === key ? o.tasks : []), ...p.tasks], next: p.next })),
            (error: CallError) => setOlder((o) => ({ ...o, error })),
          );
        }
      : undefined;
  const states = (asked["state"] ?? []).join(",");
  const active = Object.entries(asked).filter(([f]) => f !== "state");
  const toggle = (t: ListedTask) =>
    setSelected((s) => {
      const n = new Set(s);
      if (!n.delete(t.id)) n.add(t.id);
      return n;
    });
  return (
    <section class="screen">
      <header class="title">
        <h1>Tasks</h1>
        <nav class="tabs" aria-label="states">
          {tabs.map(([name, of]) => (
            <button key={name} type="button" aria-pressed={states === of.join(",")} onClick={() => refine({ state: of.join(",") })}>
              {name}
              <span class="faint">{count(of)}</span>
            </button>
          ))}
        </nav>
      </header>
      {active.length > 0 && (
        <p class="chips">
          {active.flatMap(([f, values]) =>
            values.map((v) => (
              <button key={`${f}:${v}`} type="button" class="chip" title="remove this filter" onClick={() => refine({ [f]: values.filter((o) => o !== v) })}>
                {f}:{v} ✕
              </button>
            )),
          )}
        </p>
      )}
      <Fault of={live.error ?? (older.key === key ? older.error : undefined)} />
      {(live.data?.missing?.length ?? 0) > 0 && (
        <p class="notice" role="status">
          Partitions {live.data?.missing?.map((m) => m.partition).join(", ")} cannot be read now ({live.data?.missing?.[0]?.reason}). Their tasks are not lost, but they are missing from this list.
        </p>
      )}
      <Rows
        label="tasks"
        columns={columns}
        rows={rows}
        id={(t) => t.id}
        open={(t) => go(to(["tasks", t.id]))}
        selected={selected}
        select={toggle}
        more={more}
        empty={live.data === undefined ? "Reading …" : Object.keys(asked).length > 0 ? <>No task matches. <button type="button" class="link" onClick={() => go(to(["tasks"]))}>Show all tasks</button></> : <First />}
      />
      <footer class="count">
        {rows.length}
        {next ? " shown, more below" : rows.length === 1 ? " task" : " tasks"}
        {selected.size === 0 && rows.length > 0 && (
          <button type="button" class="link" {...needs("operator")} onClick={() => lacking("operator") === null && setJob(true)}>
            act on all that match …
          </button>
        )}
        {job && <JobDialog asked={asked} close={() => setJob(false)} />}
        {selected.size > 0 && <Bulk ids={[...selected]} clear={() => setSelected(new Set())} />}
      </footer>
    </section>
  );
}

function First(): JSX.Element {
  return (
    <>
      <p>No task has been submitted yet. Submit one:</p>
      <pre>sagalog task submit -w WORKFLOW --id ID --input '{"{...}"}'</pre>
    </>
  );
}
