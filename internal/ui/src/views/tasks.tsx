import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { lacking, needs } from "../access";
import { type CallError, get, type ListedTask } from "../api/client";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { ChooseColumns, chosenLabels, labelColumns } from "../parts/columns";
import { csv, download } from "../parts/csv";
import { Lasted } from "../parts/lasted";
import { type Held, merge, none, pageOf, rest } from "../parts/list";
import { type Column, type Handle, Rows } from "../parts/rows";
import { SavedViews } from "../parts/saved";
import { briefly, sentence, State, When } from "../parts/words";
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
  ["Ended", ["processed", "undone", "terminated", "rejected"]],
];

/** The parameters of the list that the address bar holds, under their names in the API. */
export const filters = ["state", "workflow", "label", "since", "until", "schedule", "failed_step", "error_code", "older_than", "waiting_for", "agent"] as const;
/** The filters that only a list knows: neither counts nor jobs go by what tasks wait for. */
const listOnly: readonly string[] = ["waiting_for", "agent"];

interface Answer {
  tasks: ListedTask[];
  next?: string;
  missing?: { partition: number; reason: string }[];
}
type Asked = Record<string, readonly string[]>;

const fields = "id,workflow,version,state,priority,labels,submitted_at,updated_at,ended_at,parked_at,failure_count,reason,paused,run,waiting_for";
/** The number of rows of a page of the list, and the most rows that the screen keeps. */
const size = 250;
const most = 10_000;
/** The page in view is read again when the table has not scrolled for this long, in ms: while it scrolls, only its rows are drawn. */
const atRest = 150;
const idOf = (t: ListedTask): string => t.id;
/** Whether a task is above another one in the list: the newest is first. */
const above = (a: ListedTask, b: ListedTask): boolean => (a.submitted_at ?? "") > (b.submitted_at ?? "");

const workflowOf = (t: ListedTask): string => `${t.workflow} @${t.version}`;

/** The widths of columns of IDs and workflows in characters, if there is room. The reason has most of the rest. */
interface Widths {
  id: number;
  workflow: number;
}

/** The width of the longest text, in steps of four, so that the column does not move with each new row. An ID as long as a UUID fits. */
const wide = (texts: readonly string[], most: number): number => 4 * Math.ceil(Math.min(most, Math.max(8, ...texts.map((t) => t.length))) / 4) + 2;

/** The columns, of which the labels' are chosen. */
const columnsWith = (labels: readonly string[], width: Widths): readonly Column<ListedTask>[] => [
  {
    name: "Task",
    size: `minmax(7rem, ${width.id}ch)`,
    cell: (t) => (
      <a href={to(["tasks", t.id])} title={t.id}>
        {t.id}
      </a>
    ),
  },
  { name: "Workflow", size: `minmax(5rem, ${width.workflow}ch)`, minor: true, cell: (t) => <span title={workflowOf(t)}>{workflowOf(t)}</span> },
  { name: "State", size: "7.5rem", cell: (t) => <State of={t.state} paused={t.paused !== undefined} /> },
  { name: "Waits for", size: "minmax(7rem, .4fr)", minor: true, cell: (t) => <Waits of={t} /> },
  { name: "Reason", size: "minmax(10rem, 1fr)", below: true, cell: (t) => <span title={t.reason}>{t.reason ?? ""}</span> },
  { name: "Failures", size: "3.6rem", minor: true, cell: (t) => t.failure_count || "" },
  ...labelColumns(labels),
  { name: "Took", size: "9.8rem", minor: true, cell: (t) => <Lasted of={t} /> },
  { name: "Changed", size: "7rem", cell: (t) => <When at={t.updated_at} /> },
];

/** What the steps of a task wait for, in a few words: the first one, and how many more there are. */
function waitsOf(t: ListedTask): string {
  const [first, ...more] = t.waiting_for ?? [];
  if (!first) return "";
  return briefly(first.for === t.reason ? { ...first, for: "" } : first) + (more.length > 0 ? ` (and ${more.length} more)` : "");
}

/** The same, with all of them in sentences on hover. */
const Waits = ({ of: t }: { of: ListedTask }): JSX.Element => <span title={(t.waiting_for ?? []).map((w) => sentence(w)).join("\n")}>{waitsOf(t)}</span>;

interface List {
  rows: readonly ListedTask[];
  /** The latest answer for the first page. */
  head: Answer | undefined;
  error: CallError | undefined;
  waiting: number;
  gap: boolean;
  /** Shows the rows that are kept back. */
  show: () => void;
  more: (() => void) | undefined;
  full: boolean;
  look: (first: number, last: number) => void;
}

/** The tasks that match. The first page and the one in view are read again at the pace, further pages when they come near. */
function useList(asked: Asked, idle: () => boolean): List {
  const key = JSON.stringify(asked);
  const [state, set] = useState<{ key: string; held: Held<ListedTask>; error?: CallError }>({ key, held: none });
  const held = state.key === key ? state.held : none;
  const [middle, setMiddle] = useState(0);
  const rested = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(rested.current), []);
  const read = (cursor: string | undefined, signal?: AbortSignal) => get<Answer>("v1/tasks", { query: { ...asked, fields, limit: size, cursor }, ...(signal ? { signal } : {}) });
  const put = (a: Answer, after: string | null, insert: boolean) =>
    set((s) => {
      const before: Held<ListedTask> = s.key === key ? s.held : none;
      return { key, held: merge(before, { rows: a.tasks, next: a.next }, { after, insert, id: idOf, above }) };
    });
  const head = useLive<Answer>(`tasks ${key}`, (signal) => read(undefined, signal));
  useEffect(() => {
    if (head.data) put(head.data, null, held.rows.length === 0 || idle());
  }, [head.data]);
  const here = pageOf(held, middle, idOf);
  const seen = useLive<{ answer: Answer; after: string }>(here && `tasks ${key} after ${here.after}`, async (signal) => ({ answer: await read(here?.cursor, signal), after: here?.after ?? "" }), 2);
  useEffect(() => {
    if (seen.data) put(seen.data.answer, seen.data.after, false);
  }, [seen.data]);
  const below = rest(held, idOf);
  const reading = useRef("");
  const next = () => {
    if (!below || reading.current === `${key} ${below.cursor}`) return;
    reading.current = `${key} ${below.cursor}`;
    read(below.cursor).then(
      (a) => put(a, below.after, false),
      (error: CallError) => {
        reading.current = "";
        set((s) => (s.key === key ? { ...s, error } : s));
      },
    );
  };
  const failed = state.key === key ? state.error : undefined; // until the first page has been read again
  return {
    rows: held.rows,
    head: head.data,
    error: head.error ?? failed,
    waiting: held.waiting,
    gap: held.gap,
    show: () => head.data && put(head.data, null, true),
    more: below && held.rows.length < most && !failed ? next : undefined,
    full: below !== undefined && held.rows.length >= most,
    look: (first, last) => {
      clearTimeout(rested.current);
      rested.current = setTimeout(() => setMiddle(Math.floor((first + last) / 2)), atRest);
    },
  };
}

export function Tasks(): JSX.Element {
  const query = place.value.query;
  const asked: Asked = {};
  for (const f of filters) if (query.has(f)) asked[f] = query.getAll(f);
  const key = JSON.stringify(asked);
  const handle = useRef<Handle | null>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const list = useList(asked, () => selected.size === 0 && (handle.current?.idle() ?? true));
  const { rows } = list;
  const labels = chosenLabels().join("\n");
  const width = useMemo((): Widths => ({ id: wide(rows.map(idOf), 36), workflow: wide(rows.map(workflowOf), 20) }), [rows]);
  const columns = useMemo(() => columnsWith(labels === "" ? [] : labels.split("\n"), width), [labels, width.id, width.workflow]);
  const [job, setJob] = useState(false);
  useEffect(() => setSelected(new Set()), [key]);
  const { state: _, ...others } = asked;
  const waits = listOnly.some((f) => asked[f] !== undefined);
  const counts = useLive<{ counts: { key: string; count: number }[]; partial?: boolean }>(waits ? null : `counts ${JSON.stringify(others)}`, (signal) => get("v1/counts", { query: { ...others, by: "state" }, signal }), 2);
  const sum = (of: readonly string[]): number => (counts.data?.counts ?? []).filter((c) => of.length === 0 || of.includes(c.key)).reduce((n, c) => n + c.count, 0);
  const count = (of: readonly string[]): string => (counts.data ? ` ${sum(of).toLocaleString()}${counts.data.partial ? "+" : ""}` : "");
  const total = counts.data && !counts.data.partial ? Math.max(rows.length, sum((asked["state"] ?? []).flatMap((s) => s.split(",")))) : undefined;

  const show = () => {
    list.show();
    handle.current?.toTop();
  };
  useKeys({ n: { does: "show new rows", run: show } });
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
      <div class="tools">
        <SavedViews />
        {rows.length > 0 && <ChooseColumns rows={rows} />}
      </div>
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
      <Fault of={list.error} />
      {(list.head?.missing?.length ?? 0) > 0 && (
        <p class="notice" role="status">
          Partitions {list.head?.missing?.map((m) => m.partition).join(", ")} cannot be read now ({list.head?.missing?.[0]?.reason}). Their tasks are not lost, but they are missing from this list.
        </p>
      )}
      <div class="over" role="status">
        {list.waiting > 0 && (
          <button type="button" class="main" title="Show them. Key: n" onClick={show}>
            {list.waiting.toLocaleString()}
            {list.gap ? "+" : ""} new
          </button>
        )}
      </div>
      <Rows
        label="tasks"
        columns={columns}
        rows={rows}
        total={list.more ? total : undefined}
        look={list.look}
        handle={handle}
        id={idOf}
        open={(t) => go(to(["tasks", t.id]))}
        selected={selected}
        select={toggle}
        more={list.more}
        empty={list.head === undefined || list.head.tasks.length > 0 || list.more ? "Reading …" : Object.keys(asked).length > 0 ? <Nothing asked={asked} /> : <First />}
      />
      <footer class="count">
        <span>
          {rows.length.toLocaleString()}
          {list.more ? " shown, more below" : list.full ? " shown, as many as this page holds: use a filter to see others" : rows.length === 1 ? " task" : " tasks"}
        </span>
        {selected.size === 0 && rows.length > 0 && !waits && (
          <button type="button" class="link" {...needs("operator")} onClick={() => lacking("operator") === null && setJob(true)}>
            act on all that match …
          </button>
        )}
        {rows.length > 0 && (
          <button type="button" class="link" title="download the tasks above as a file for a spreadsheet" onClick={() => download("tasks.csv", "text/csv", asCSV(rows))}>
            CSV
          </button>
        )}
        {job && <JobDialog asked={asked} close={() => setJob(false)} />}
        {selected.size > 0 && <Bulk ids={[...selected]} clear={() => setSelected(new Set())} />}
      </footer>
    </section>
  );
}

/** Says that no task matches, and which filter excludes the most tasks. */
function Nothing({ asked }: { asked: Asked }): JSX.Element {
  const waits = listOnly.filter((f) => asked[f] !== undefined);
  const names = Object.keys(asked).filter((f) => waits.every((w) => w === f)); // what can be counted without them
  const live = useLive<{ without: string; count: number }>(
    names.length === 0 ? null : `excluded ${JSON.stringify(asked)}`,
    async (signal) => {
      const counts = await Promise.all(
        names.map(async (without) => {
          const { [without]: _, ...others } = asked;
          const c = await get<{ counts: { count: number }[] }>("v1/counts", { query: { ...others, by: "state" }, signal });
          return { without, count: c.counts.reduce((n, o) => n + o.count, 0) };
        }),
      );
      return counts.reduce((a, b) => (b.count > a.count ? b : a), { without: "", count: 0 });
    },
    5,
  );
  const most = live.data;
  return (
    <>
      <p>No task matches.</p>
      {most && most.count > 0 && (
        <p>
          <button type="button" class="link" onClick={() => refine({ [most.without]: "" })}>
            Without {most.without}:{asked[most.without]?.join(",")} there {most.count === 1 ? "is 1 task" : `are ${most.count.toLocaleString()} tasks`}
          </button>
        </p>
      )}
      <button type="button" class="link" onClick={() => go(to(["tasks"]))}>
        Show all tasks
      </button>
    </>
  );
}

/** The tasks that are shown, for a spreadsheet. */
const asCSV = (rows: readonly ListedTask[]): string =>
  csv(
    ["id", "workflow", "version", "state", "reason", "waiting_for", "failure_count", "labels", "submitted_at", "updated_at", "ended_at"],
    rows.map((t) => [
      t.id,
      t.workflow,
      String(t.version),
      t.state,
      t.reason ?? "",
      (t.waiting_for ?? []).map((w) => `${w.step ?? ""} ${w.kind} ${w.for ?? ""}`.trim()).join("; "),
      String(t.failure_count),
      Object.entries(t.labels ?? {}).map(([k, v]) => `${k}:${v}`).join(" "),
      t.submitted_at ?? "",
      t.updated_at ?? "",
      t.ended_at ?? "",
    ]),
  );

function First(): JSX.Element {
  return (
    <>
      <p>No task has been submitted yet. Submit one:</p>
      <pre>sagalog task submit -w WORKFLOW --id ID --input '{"{...}"}'</pre>
    </>
  );
}
