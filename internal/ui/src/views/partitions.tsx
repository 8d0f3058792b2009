import type { JSX } from "preact";
import { get, type Partition } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { sized } from "../parts/bytes";
import { Fault } from "../parts/fault";
import { Nodes } from "../parts/nodes";
import { type Column, Rows } from "../parts/rows";
import { When } from "../parts/words";
import { place, refine, to } from "../router";

type TakeOver = components["schemas"]["PastTakeOver"];

const causes = { stopped: "it gave it up", silent: "its heartbeats ended", fault: "it could not own it" };

/** What the owner has decided and no broker has acknowledged, by class. */
function Outbox({ of: p }: { of: Partition }): JSX.Element {
  const classes = p.outbox ?? [];
  if (classes.length === 0) return <span class="faint">{p.owner ? "nothing" : "-"}</span>;
  const words = classes.map((c) => `${c.records} ${c.class.replaceAll("_", " ")}${c.age ? `, the oldest for ${c.age}` : ""}`).join("; ");
  return <span title={`${words}; ${sized(classes.reduce((sum, c) => sum + c.bytes, 0))}`}>{words}</span>;
}

const columns: readonly Column<Partition>[] = [
  { name: "Partition", size: "6rem", cell: (p) => <a href={to(["partitions"], { of: String(p.partition) })} aria-label={`take-overs of partition ${p.partition}`}>{p.partition}</a> },
  { name: "Owner", size: "minmax(7rem, 1fr)", cell: (p) => p.owner ?? <span class="state bad">nobody</span> },
  { name: "Since", size: "8rem", cell: (p) => <When at={p.since} /> },
  {
    name: "Taken over",
    size: "minmax(9rem, 1.5fr)",
    minor: true,
    cell: (p) => (p.taken_over ? <span title={`${p.taken_over.gap} without an owner`}>{`from ${p.taken_over.from}: ${causes[p.taken_over.cause]}`}</span> : "-"),
  },
  { name: "Behind", size: "7rem", cell: (p) => (p.end_offset === undefined || p.applied_offset === undefined ? "-" : p.end_offset - p.applied_offset) },
  { name: "Live tasks", size: "7rem", cell: (p) => p.live ?? "-" },
  { name: "Timers due", size: "7rem", minor: true, cell: (p) => p.due ?? "-" },
  { name: "Not yet sent", size: "minmax(9rem, 1.5fr)", minor: true, cell: (p) => <Outbox of={p} /> },
  { name: "Next offset", size: "8rem", minor: true, cell: (p) => p.applied_offset ?? "-" },
  { name: "Epoch", size: "minmax(8rem, 1.5fr)", minor: true, cell: (p) => <code>{p.epoch}</code> },
];

const takeovers: readonly Column<TakeOver>[] = [
  { name: "At", size: "9rem", cell: (t) => <When at={t.at} /> },
  { name: "Owner", size: "minmax(7rem, 1fr)", cell: (t) => t.owner },
  { name: "From", size: "minmax(7rem, 1fr)", cell: (t) => t.from },
  { name: "Why", size: "minmax(8rem, 1.5fr)", cell: (t) => (t.cause ? causes[t.cause] : "not known") },
  { name: "Without an owner", size: "9rem", cell: (t) => t.gap ?? "not known" },
  { name: "Void records", size: "8rem", minor: true, cell: (t) => t.void ?? "not known" },
  { name: "Epoch", size: "minmax(8rem, 1.5fr)", minor: true, cell: (t) => <code>{t.epoch}</code> },
];

/** The take-overs of a partition, as the node that answers knows them. */
function TakeOvers({ of }: { of: string }): JSX.Element {
  const live = useLive<components["schemas"]["TakeOversDocument"]>(`takeovers ${of}`, (signal) => get(`v1/partitions/${encodeURIComponent(of)}/takeovers`, { signal }));
  return (
    <>
      <h2>Take-overs of partition {of}</h2>
      {live.data?.node && <p class="faint">As node {live.data.node} has read them in the log.</p>}
      <Fault of={live.error} />
      <Rows label={`take-overs of partition ${of}`} columns={takeovers} rows={live.data?.takeovers ?? []} id={(t) => t.epoch} empty={live.data ? "No node has taken it over from another." : "Reading …"} />
    </>
  );
}

export function Partitions(): JSX.Element {
  const of = place.value.query.get("of");
  const live = useLive<Partition[]>("partitions", (signal) => get("v1/partitions", { signal }));
  return (
    <section class="screen">
      <header class="title">
        <h1>Partitions</h1>
      </header>
      <Fault of={live.error} />
      <Rows label="partitions" columns={columns} rows={live.data ?? []} id={(p) => String(p.partition)} open={(p) => refine({ of: String(p.partition) })} empty={live.data ? "The namespace has no partitions." : "Reading …"} />
      <Nodes />
      {of !== null && <TakeOvers of={of} />}
    </section>
  );
}
