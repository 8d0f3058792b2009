import type { JSX } from "preact";
import { get } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { go, to } from "../router";
import { exact } from "../time";
import { Fault } from "./fault";
import { type Column, Rows } from "./rows";
import { When } from "./words";

type Act = components["schemas"]["Act"];

/** The screen of what an act was done to, if it has one. */
const screens: Partial<Record<Act["kind"], string>> = { task: "tasks", schedule: "schedules", limit: "limits", agent: "agents" };

function place(a: Act): string | undefined {
  const screen = screens[a.kind];
  return screen && a.subject ? to([screen, a.subject]) : undefined;
}

const columns: readonly Column<Act>[] = [
  { name: "At", size: "8rem", cell: (a) => <When at={a.at} /> },
  { name: "Who", size: "minmax(6rem, 1fr)", cell: (a) => a.by ?? <span class="faint">nobody said</span> },
  { name: "Did", size: "7rem", cell: (a) => a.verb },
  {
    name: "To",
    size: "minmax(9rem, 2fr)",
    cell: (a) => {
      const at = place(a);
      return (
        <>
          {a.kind.replaceAll("_", " ")} {at ? <a href={at}>{a.subject}</a> : a.subject} {a.detail && <span class="faint">{a.detail}</span>}
        </>
      );
    },
  },
  { name: "Result", size: "6rem", cell: (a) => <span class={`state ${a.result === "refused" ? "bad" : "good"}`}>{a.result}</span> },
  { name: "Reason", size: "minmax(8rem, 2fr)", minor: true, cell: (a) => <span title={a.reason}>{a.reason ?? "-"}</span> },
];

/** What operators did lately. */
export function Acts(): JSX.Element {
  const live = useLive<components["schemas"]["ActsDocument"]>("acts", (signal) => get("v1/acts", { signal }));
  const d = live.data;
  return (
    <>
      {d && (
        <p class="faint">
          Acts about tasks, schedules and limits are those since {exact(d.since)}, when a node last started; the history of a task has all about the task.
          {d.partial && " A node does not answer, or there are more: this list is not complete."}
        </p>
      )}
      <Fault of={live.error} />
      <Rows
        label="acts of operators"
        columns={columns}
        rows={d?.acts ?? []}
        id={(a) => `${a.at} ${a.kind} ${a.subject} ${a.verb} ${a.request}`}
        open={(a) => {
          const at = place(a);
          if (at) go(at);
        }}
        empty={d ? "No operator has done anything. What is done to tasks, jobs, agents, schedules, limits, alerts and settings appears here." : "Reading …"}
      />
    </>
  );
}
