import type { JSX } from "preact";
import { get, segment } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { useAct } from "../parts/act";
import { Fault } from "../parts/fault";
import { Json } from "../parts/json";
import { type Column, Rows } from "../parts/rows";
import { quote } from "../parts/terminal";
import { When } from "../parts/words";
import { go, to } from "../router";

type Letter = components["schemas"]["DeadLetterDocument"];

const columns: readonly Column<Letter>[] = [
  { name: "Reason", size: "minmax(9rem, 1fr)", cell: (d) => <a href={to(["dead-letters", d.id])}>{d.reason}</a> },
  { name: "Key", size: "minmax(8rem, 1fr)", cell: (d) => d.key ?? "-" },
  { name: "Detail", size: "minmax(10rem, 3fr)", minor: true, cell: (d) => <span title={d.detail}>{d.detail ?? ""}</span> },
  { name: "From", size: "minmax(9rem, 1fr)", minor: true, cell: (d) => `${d.topic} ${d.partition}@${d.offset}` },
  { name: "When", size: "8rem", cell: (d) => <When at={d.time} /> },
];

export function DeadLetters(): JSX.Element {
  const live = useLive<{ dead_letters: Letter[]; next?: string }>("dead letters", (signal) => get("v1/dead-letters", { query: { limit: 500 }, signal }), 5);
  return (
    <section class="screen">
      <header class="title">
        <h1>Dead letters</h1>
      </header>
      <Fault of={live.error} />
      <Rows label="dead letters" columns={columns} rows={live.data?.dead_letters ?? []} id={(d) => d.id} open={(d) => go(to(["dead-letters", d.id]))} empty={live.data ? "There are none. Inputs that cannot be used appear here." : "Reading …"} />
      {live.data?.next && <p class="faint">The 500 latest are shown; sagalog dlq list --all lists all of them.</p>}
    </section>
  );
}

export function DeadLetterScreen({ id }: { id: string }): JSX.Element {
  const live = useLive<Letter>(`dead letter ${id}`, (signal) => get(`v1/dead-letters/${segment(id)}`, { signal }), 30);
  const act = useAct(live.again);
  const d = live.data;
  let value: unknown = d?.value;
  try {
    if (d?.value !== undefined) value = JSON.parse(d.value);
  } catch {
    // it is shown as it came
  }
  return (
    <section class="screen task">
      <header class="title">
        <h1>{d?.key ?? id}</h1>
        {act.button({
          verb: "redrive",
          to: "the dead letter",
          does: "Send the record again, unchanged. Remove the cause first: otherwise it becomes a dead letter again.",
          path: () => `v1/dead-letters/${segment(id)}/redrive`,
          cli: () => `dlq redrive ${quote(id)}`,
        })}
      </header>
      <Fault of={live.error} />
      {act.dialog}
      {d && (
        <>
          <div class="why bad">
            {d.reason}
            {d.detail ? `: ${d.detail}` : ""}
          </div>
          <p class="faint">
            {d.topic} {d.partition}@{d.offset}, <When at={d.time} />
          </p>
          <div class="two">
            <section>
              <h2>Record</h2>
              <Json of={value ?? d.value_base64} label="record" />
            </section>
            <section>
              <h2>Headers</h2>
              <Json of={d.headers} label="headers" />
            </section>
          </div>
        </>
      )}
    </section>
  );
}
