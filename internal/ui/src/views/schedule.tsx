import type { JSX } from "preact";
import { get, type ListedTask, segment } from "../api/client";
import type { components } from "../api/schema";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { useAct } from "../parts/act";
import { Fault } from "../parts/fault";
import { Copy, Json } from "../parts/json";
import { quote } from "../parts/terminal";
import { tone, When, word } from "../parts/words";
import { go, to } from "../router";
import { exact } from "../time";
import { type Schedule, verbsOf, when } from "./schedules";

type Fire = components["schemas"]["ScheduleFire"];
interface Result {
  due: string;
  task: string;
  state: string;
  reason: string | undefined;
}

/** How many due times the strip shows. */
const shown = 30;
const unended = ["pending", "processing", "undoing", "error"];

/** What becomes of a due time while a task of the schedule has not ended. */
const overlaps: Record<Schedule["overlap"], string> = {
  skip: "skip: the due time is passed over",
  queue_one: "queue_one: one due time waits, and starts when the running task has ended",
  cancel: "cancel: the running task is cancelled, and the new one starts when it has ended",
  allow: "allow: both run",
};

/** One schedule: when it is due next, what became of the last due times, and how many led to no task. */
export function ScheduleScreen({ name }: { name: string }): JSX.Element {
  const live = useLive<Schedule>(`schedule ${name}`, (signal) => get(`v1/schedules/${segment(name)}`, { signal }), 5);
  const fires = useLive<{ fires: Fire[] }>(`schedule ${name} fires`, (signal) => get(`v1/schedules/${segment(name)}/fires`, { signal }), 5);
  const past = (fires.data?.fires ?? []).filter((f) => f.at !== undefined).slice(-shown);
  const open = past.filter((f) => !f.state).map((f) => f.task);
  // A schedule knows only how tasks ended. A parked one has not, and is what matters most.
  const tasks = useLive<{ tasks: ListedTask[] }>(open.length > 0 ? `tasks of schedule ${name}` : null, (signal) => get("v1/tasks", { query: { schedule: name, state: unended, fields: "id,state,reason", limit: 250 }, signal }), 5);
  const at = new Map((tasks.data?.tasks ?? []).map((t) => [t.id, t]));
  const results = past.map((f) => ({ ...f, state: f.state ?? at.get(f.task)?.state ?? "not_ended", reason: f.reason ?? at.get(f.task)?.reason }));
  const act = useAct(() => {
    live.again();
    fires.again();
  });
  useKeys({ Escape: { does: "back to the list", run: () => go(to(["schedules"])) } });
  const s = live.data;
  const command = `sagalog schedule next ${quote(name)} --api ${location.origin}`;
  return (
    <section class="screen task">
      <header class="title">
        <h1>{name}</h1>
        {s && <span class={`state ${s.paused ? "wait" : "good"}`}>{s.paused ? "paused" : s.pending ? "not taken over yet" : "active"}</span>}
        {s && (
          <span class="faint">
            {when(s)}, starts <a href={to(["workflows", s.workflow])}>{s.workflow}</a>
            {s.version ? ` @${s.version}` : ""}
          </span>
        )}
        <a href={to(["tasks"], { schedule: name })}>its tasks</a>
        {s && <span class="verbs">{verbsOf(s).map(act.button)}</span>}
      </header>
      {act.dialog}
      <Fault of={live.error ?? fires.error} />
      {s && (
        <>
          {s.paused && (
            <p class="why">
              Paused{s.paused.by ? ` by ${s.paused.by}` : ""}
              {s.paused.reason ? `: ${s.paused.reason}` : ""}. No due time leads to a task.
            </p>
          )}
          <div class="two">
            <Next of={s} />
            <Counts of={s} />
          </div>
          <Results of={results} />
          <section class="card" aria-label="input">
            <h2>Input</h2>
            <Json of={s.input} label="input of its tasks" />
          </section>
          <p class="json">
            <code>{command}</code> <Copy text={command} what="the command" />
          </p>
        </>
      )}
    </section>
  );
}

function Next({ of: s }: { of: Schedule }): JSX.Element {
  return (
    <section class="card" aria-label="next due times">
      <h2>Next due times</h2>
      {s.next.length === 0 && <p class="faint">{s.paused ? "None while it is paused." : "There is none."}</p>}
      <ol>
        {s.next.map((at) => (
          <li key={at}>
            {exact(at)} <span class="faint">(<When at={at} />)</span>
          </li>
        ))}
      </ol>
      {s.jitter && <p class="faint">Each task is submitted up to {s.jitter} late.</p>}
    </section>
  );
}

function Counts({ of: s }: { of: Schedule }): JSX.Element {
  const bad = (n: number): JSX.Element => (n > 0 ? <span class="state bad">{n}</span> : <>{n}</>);
  return (
    <section class="card" aria-label="what became of due times">
      <h2>Due times so far</h2>
      <dl class="pairs">
        <dt>led to a task</dt>
        <dd>{s.fired}</dd>
        <dt>missed (older than {s.catch_up})</dt>
        <dd>{bad(s.missed)}</dd>
        <dt>passed over (overlap)</dt>
        <dd>{s.skipped}</dd>
        <dt>failed (no task could be started)</dt>
        <dd>{bad(s.failed)}</dd>
        <dt>overlap</dt>
        <dd>{overlaps[s.overlap]}</dd>
        <dt>running</dt>
        <dd>
          {(s.running ?? []).length === 0 ? "none" : (s.running ?? []).map((f) => <a key={f.task} href={to(["tasks", f.task])}>{`${f.task} `}</a>)}
          {s.queued && (
            <>
              ; one waits, due <When at={s.queued} />
            </>
          )}
        </dd>
      </dl>
    </section>
  );
}

/** What became of the last due times: a square for each, the latest last, and how many ended how. */
function Results({ of: last }: { of: readonly Result[] }): JSX.Element {
  const by = new Map<string, number>();
  for (const f of last) by.set(f.state, (by.get(f.state) ?? 0) + 1);
  return (
    <section class="card" aria-label="last results">
      <h2>Last results</h2>
      {last.length === 0 ? <p class="faint">No due time has led to a task yet.</p> : <p>{[...by].map(([state, n]) => `${n} ${word(state)}`).join(", ")}. The latest is last.</p>}
      <ol class="strip">
        {last.map((f) => {
          const says = `due ${exact(f.due)}: ${word(f.state)}${f.reason ? `: ${f.reason}` : ""}`;
          return (
            <li key={f.due}>
              <a href={to(["tasks", f.task])} class={toneOf(f)} aria-label={says} title={says}>
                {marks[f.state] ?? "?"}
              </a>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

const toneOf = (f: Result): string => (f.state === "rejected" ? "bad" : tone(f.state));

/** A sign besides the colour. */
const marks: Record<string, string> = { processed: "✓", pending: "…", processing: "…", not_ended: "…", undoing: "↩", undone: "↩", error: "!", terminated: "✕", rejected: "✕" };
