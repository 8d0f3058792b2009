import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { lacking, needs as withRole } from "../access";
import { call, CallError, get, type Info, type Partition } from "../api/client";
import type { components } from "../api/schema";
import { now, useLive } from "../live";
import { useAlerts } from "../parts/alerts";
import { Fault } from "../parts/fault";
import { JobDialog } from "../parts/jobs";
import { clock } from "../parts/lasted";
import { useQuiet } from "../parts/lookout";
import { Took, tone, When, word } from "../parts/words";
import { to } from "../router";
import { span } from "../time";
import { Charts } from "./charts";

type Counts = components["schemas"]["CountsDocument"];
type Agents = components["schemas"]["AgentsAnswerBody"];
type Limits = components["schemas"]["LimitsList"];
type Letters = components["schemas"]["DeadLettersAnswerBody"];
type Schedules = components["schemas"]["SchedulesAnswerBody"];

const day = 24 * 60 * 60 * 1000;
const mostLetters = 50;

const count = (by: string, query: Record<string, string> = {}) => (signal: AbortSignal) => get<Counts>("v1/counts", { query: { ...query, by }, signal });

/** What the page shows first: what needs a person, then how things go. */
export function Overview(): JSX.Element {
  const states = useLive<Counts>("counts state", count("state"));
  const waits = useLive<Counts>("counts waiting", count("waiting_for"));
  const parked = states.data?.counts.find((c) => c.key === "error")?.count ?? 0;
  const groups = useLive<Counts>(parked > 0 ? "counts parked" : null, count("workflow", { state: "error" }), 2);
  const agents = useLive<Agents>("agents", (signal) => get("v1/agents", { signal }), 2);
  const limits = useLive<Limits>("limits that hold up", (signal) => get("v1/limits", { signal }), 5);
  const schedules = useLive<Schedules>("schedules", (signal) => get("v1/schedules", { signal }), 10);
  const partitions = useLive<Partition[]>("partitions", (signal) => get("v1/partitions", { signal }), 5);
  const info = useLive<Info>("info", (signal) => get("v1/info", { signal }), 30);
  const letters = useLive<Letters>("dead letters new", openLetters, 30);
  const alerts = useAlerts();
  const needs: JSX.Element[] = [];
  for (const g of (groups.data?.counts ?? []).slice(0, 20)) needs.push(<Parked key={`parked ${g.key}`} workflow={g.key} count={g.count} oldest={g.oldest} />);
  needs.push(...alerts.items);
  for (const m of agents.data?.missing ?? []) {
    if (alerts.has("agent_missing", m.agent)) continue;
    needs.push(
      <li key={`agent ${m.agent} ${m.operation} ${m.function ?? ""}`}>
        <a href={to(["agents"])}>
          <span class="state bad">
            agent {m.agent} is needed, but no live instance offers {m.operation}
          </span>
        </a>{" "}
        <span class="faint">
          for <Took from={m.since} to={undefined} />
        </span>
      </li>,
    );
  }
  for (const p of agents.data?.paused ?? []) {
    needs.push(
      <li key={`paused ${p.agent}`}>
        <a href={to(["agents"])}>
          <span class="state wait">
            agent {p.agent} is paused{p.reason ? `: ${p.reason}` : ""}
          </span>
        </a>
      </li>,
    );
  }
  for (const l of limits.data?.limits ?? []) {
    if ((!l.halted && !l.paused) || alerts.has("concurrency_blocked", l.limit)) continue;
    needs.push(
      <li key={`limit ${l.limit}`}>
        <a href={to(["limits", l.limit])}>
          <span class="state wait">
            {l.waiting} waiting for limit {l.limit}: {l.paused ? "it is paused" : `${l.halted} of its holders ${l.halted === 1 ? "is" : "are"} parked or paused`}
          </span>
        </a>
      </li>,
    );
  }
  for (const s of schedules.data?.schedules ?? []) {
    if (!s.missed && s.last?.state !== "error" && s.last?.state !== "rejected") continue;
    needs.push(
      <li key={`schedule ${s.schedule}`}>
        <a href={to(["schedules"])}>
          <span class="state wait">
            schedule {s.schedule}: {s.missed ? `${s.missed} missed` : `its last task is ${word(s.last?.state ?? "")}`}
          </span>
        </a>
      </li>,
    );
  }
  const fresh = (letters.data?.dead_letters ?? []).filter((d) => d.time !== undefined && now.value - Date.parse(d.time) < day);
  if (fresh.length > 0) needs.push(<DeadOnes key="dead letters" of={fresh} more={fresh.length === mostLetters} />);
  const unowned = (partitions.data ?? []).filter((p) => !p.owner);
  if (unowned.length > 0) {
    needs.push(
      <li key="partitions">
        <a href={to(["partitions"])}>
          <span class="state bad">partitions {unowned.map((p) => p.partition).join(", ")} have no owner</span>
        </a>
      </li>,
    );
  }
  const signals = waits.data?.counts.find((c) => c.key === "signal")?.count ?? 0;
  const known = states.data !== undefined && agents.data !== undefined && (parked === 0 || groups.data !== undefined);
  const all = known && !states.error && alerts.known && limits.data !== undefined && schedules.data !== undefined && partitions.data !== undefined && letters.data !== undefined && (letters.data.dead_letters.length > 0 || !letters.data.next);
  const quiet = useQuiet(needs.length > 0 ? false : all ? true : undefined);
  return (
    <section class="screen task">
      <h1>Overview</h1>
      <Fault of={states.error} />
      <section class="card" aria-label="needs you">
        <h2>Needs you</h2>
        {needs.length > 0 && <ul class="needs">{needs}</ul>}
        {signals > 0 && (
          <p>
            <a href={to(["tasks"], { waiting_for: "signal" })}>{signals === 1 ? "1 step waits for a signal" : `${signals.toLocaleString()} steps wait for a signal`}</a>, which a person or a program has to send.
          </p>
        )}
        {needs.length === 0 && <p>{!known ? "Reading …" : signals > 0 ? "Nothing else needs you." : "Nothing needs you."}</p>}
        {quiet && (
          <p class="faint">
            For {span(now.value - quiet.since)}, since {clock(new Date(quiet.since).toISOString())}, when {quiet.settled ? "the last thing that did was settled" : "this page began to look"}.
          </p>
        )}
      </section>
      {info.data?.demo && <Demo services={[...new Set((agents.data?.agents ?? []).map((a) => a.agent))].sort()} />}
      <div class="two">
        <section class="card" aria-label="tasks by state">
          <h2>Tasks</h2>
          <Bars of={states.data} href={(k) => to(["tasks"], { state: k })} name={word} tone={tone} empty={<Newcomer />} />
        </section>
        <section class="card" aria-label="what steps wait for">
          <h2>What steps wait for</h2>
          <Bars of={waits.data} href={(k) => to(["tasks"], { waiting_for: k })} name={(k) => k.replaceAll("_", " ")} tone={() => "wait"} empty="No step is waiting." />
        </section>
      </div>
      <Charts />
    </section>
  );
}

/** Reads the newest open dead letters. A page can be empty although older ones are open. */
async function openLetters(signal: AbortSignal): Promise<Letters> {
  let cursor: string | undefined;
  for (let pages = 1; ; pages++) {
    const a = await get<Letters>("v1/dead-letters", { query: { limit: mostLetters, open: true, cursor }, signal });
    if (a.dead_letters.length > 0 || !a.next || pages === 10) return a;
    cursor = a.next;
  }
}

/** The open dead letters of the last day, by reason. */
function DeadOnes({ of: list, more }: { of: Letters["dead_letters"]; more: boolean }): JSX.Element {
  const reasons = new Map<string, number>();
  for (const d of list) reasons.set(d.reason, (reasons.get(d.reason) ?? 0) + 1);
  return (
    <li>
      <a href={to(["dead-letters"])}>
        <span class="state bad">
          {list.length.toLocaleString()}
          {more ? " or more dead letters" : list.length === 1 ? " dead letter" : " dead letters"} in the last 24 hours
        </span>
      </a>
      <span class="faint">
        , the newest <When at={list[0]?.time} />:{" "}
      </span>
      {[...reasons].map(([reason, n], i) => (
        <>
          {i > 0 && ", "}
          <a key={reason} href={to(["dead-letters"], { reason })}>
            {n} {reason.replaceAll("_", " ")}
          </a>
        </>
      ))}
    </li>
  );
}

/** The parked tasks of a workflow, in groups of the same error. One job retries a group. */
function Parked({ workflow, count: all, oldest }: { workflow: string; count: number; oldest: string | undefined }): JSX.Element {
  const asked = { state: "error", workflow };
  const groups = useLive<Counts>(`counts parked ${workflow}`, count("error_code", asked), 10);
  const [job, open] = useState<string>();
  const tasks = (n: number): string => `${n.toLocaleString()} ${n === 1 ? "task" : "tasks"}`;
  return (
    <li>
      <a href={to(["tasks"], asked)}>
        <span class="state bad">
          {tasks(all)} of {workflow} parked
        </span>
      </a>
      {oldest && (
        <span class="faint">
          , the oldest <When at={oldest} />
        </span>
      )}
      <ul>
        {groups.data?.counts.map((g) => (
          <li key={g.key} class="inner">
            {g.key ? (
              <a href={to(["tasks"], { ...asked, error_code: g.key })}>
                {tasks(g.count)} with {g.key}
              </a>
            ) : (
              `${tasks(g.count)} whose steps have no error`
            )}{" "}
            {g.key && (
              <button type="button" class="link" {...withRole("operator")} onClick={() => lacking("operator") === null && open(g.key)} aria-label={`retry ${tasks(g.count)} of ${workflow} with ${g.key}`}>
                retry all …
              </button>
            )}
          </li>
        ))}
      </ul>
      {job && <JobDialog asked={{ state: ["error"], workflow: [workflow], error_code: [job] }} close={() => open(undefined)} />}
    </li>
  );
}

function Bars({ of, href, name, tone: colour, empty }: { of: Counts | undefined; href?: (key: string) => string; name: (key: string) => string; tone: (key: string) => string; empty: JSX.Element | string }): JSX.Element {
  if (!of) return <p class="faint">Reading …</p>;
  if (of.counts.length === 0) return <div class="faint">{empty}</div>;
  const most = Math.max(...of.counts.map((c) => c.count));
  return (
    <ul class="bars">
      {of.counts.map((c) => (
        <li key={c.key}>
          {href ? <a href={href(c.key)}>{name(c.key)}</a> : <span>{name(c.key)}</span>}
          <span class={`meter ${colour(c.key)}`} style={{ width: `${Math.max(0.5, (60 * c.count) / most)}%` }} />
          <span>{c.count.toLocaleString()}</span>
        </li>
      ))}
    </ul>
  );
}

function Newcomer(): JSX.Element {
  return (
    <>
      <p>Nothing has been submitted yet:</p>
      <pre>{"sagalog workflow apply FILE\nsagalog task submit -w WORKFLOW --id ID --input '{...}'\nsagalog task list"}</pre>
    </>
  );
}

const modes = [
  ["fail", "Calls fail. They are tried again until the service is back."],
  ["refuse", "Calls are refused permanently. Completed steps are undone, or the task is parked if they cannot be."],
  ["slow", "Answers are slow."],
  ["hang", "Calls are never answered. Attempts time out."],
] as const;

/** The example, which the reader may break. */
function Demo({ services }: { services: readonly string[] }): JSX.Element {
  const [service, choose] = useState("drone");
  const [said, say] = useState("");
  const [fault, setFault] = useState<CallError>();
  const ask = (method: "PUT" | "DELETE", mode?: string) => {
    if (lacking("operator") !== null) return;
    setFault(undefined);
    const done = mode ? `For 20 s the ${service} service will ${mode}. Watch the tasks.` : "All services work again.";
    call(method, "v1/demo/break", mode ? { body: { service, mode, for: "20s" } } : {}).then(
      () => say(done),
      (e: unknown) => setFault(e instanceof CallError ? e : new CallError(0, { detail: String(e) })),
    );
  };
  const name = services.includes(service) ? service : (services[0] ?? service);
  return (
    <section class="card" aria-label="the example">
      <h2>The example is running. Break it, and watch it recover</h2>
      <p class="verbs">
        Make the{" "}
        <select aria-label="service" value={name} onChange={(e) => choose(e.currentTarget.value)}>
          {services.map((s) => (
            <option key={s}>{s}</option>
          ))}
        </select>{" "}
        service
        {modes.map(([mode, does]) => (
          <button key={mode} type="button" title={does} {...withRole("operator")} onClick={() => ask("PUT", mode)}>
            {mode}
          </button>
        ))}
        for 20 s, or
        <button type="button" {...withRole("operator")} onClick={() => ask("DELETE")}>
          fix all
        </button>
      </p>
      {said && (
        <p role="status">
          {said} <a href={to(["tasks"])}>Tasks</a>
        </p>
      )}
      <Fault of={fault} />
    </section>
  );
}
