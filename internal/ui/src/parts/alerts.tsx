import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { lacking, needs as withRole } from "../access";
import { call, CallError, get, segment } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { to } from "../router";
import { Fault } from "./fault";
import { Meaning, Took, When } from "./words";

type Alert = components["schemas"]["Alert"];
type AlertList = components["schemas"]["AlertList"];

/** Parked tasks are shown in groups, so their alerts are left out here. */
const kinds = ["deadline_passed", "soft_limit_passed", "agent_missing", "schedule_blocked", "concurrency_blocked"].join(",");
const shown = 50;

export interface OpenAlerts {
  /** One item for each open alert, the oldest first, and at the end a note if there are more. */
  items: JSX.Element[];
  /** Says whether an alert of a kind is open about something. */
  has: (kind: string, about: string) => boolean;
  /** Whether they have been read. */
  known: boolean;
}

/** Reads the open alerts that are not about parked tasks. */
export function useAlerts(): OpenAlerts {
  const { data, again } = useLive<AlertList>("open alerts", (signal) => get("v1/alerts", { query: { kind: kinds, limit: shown }, signal }), 2);
  const list = data?.alerts ?? [];
  const items = list.map((a) => <Item key={a.id} alert={a} again={again} />);
  if (data?.next || data?.partial) {
    items.push(
      <li key="more alerts" class="faint">
        There are more alerts: <code>sagalog alert list --all</code> lists them.
      </li>,
    );
  }
  return { items, known: data !== undefined, has: (kind, about) => list.some((a) => a.kind === kind && subject(a).name === about) };
}

/** What an alert is about, and the screen that shows it. */
function subject(a: Alert): { name: string; what: string; path: string[] } {
  if (a.agent) return { name: a.agent, what: "agent", path: ["agents"] };
  if (a.schedule) return { name: a.schedule, what: "schedule", path: ["schedules"] };
  if (a.limit) return { name: a.limit, what: "limit", path: ["limits", a.limit] };
  return { name: a.task ?? "", what: a.step ? `step ${a.step} of task` : "task", path: ["tasks", a.task ?? ""] };
}

function Item({ alert: a, again }: { alert: Alert; again: () => void }): JSX.Element {
  const [fault, setFault] = useState<CallError>();
  const [asking, ask] = useState(false);
  const about = subject(a);
  const acknowledge = () => {
    if (lacking("operator") !== null || asking) return;
    ask(true);
    setFault(undefined);
    call("POST", `v1/alerts/${segment(a.id)}/acknowledge`, { body: {} })
      .then(again, (e: unknown) => setFault(e instanceof CallError ? e : new CallError(0, { detail: String(e) })))
      .finally(() => ask(false));
  };
  return (
    <li>
      <a href={to(about.path)} title={a.command}>
        <span class={`state ${a.acknowledged ? "wait" : "bad"}`}>
          {about.what} {about.name}: {a.reason}
        </span>
      </a>{" "}
      {a.since && (
        <span class="faint">
          for <Took from={a.since} to={undefined} />
        </span>
      )}{" "}
      <Meaning of={a.kind} at="alerts" />{" "}
      {a.acknowledged ? (
        <span class="faint">
          acknowledged{a.acknowledged.by ? ` by ${a.acknowledged.by}` : ""} <When at={a.acknowledged.at} />
          {a.acknowledged.note ? `: ${a.acknowledged.note}` : ""}
        </span>
      ) : (
        <button type="button" class="link" {...withRole("operator")} onClick={acknowledge} aria-label={`acknowledge: ${about.what} ${about.name}`}>
          acknowledge
        </button>
      )}
      <Fault of={fault} />
    </li>
  );
}
