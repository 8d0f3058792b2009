import type { JSX } from "preact";
import { get, type Partition } from "../api/client";
import { useLive } from "../live";
import { Fault } from "../parts/fault";
import { type Column, Rows } from "../parts/rows";
import { When } from "../parts/words";

const causes = { stopped: "it gave it up", silent: "its heartbeats ended", fault: "it could not own it" };

const columns: readonly Column<Partition>[] = [
  { name: "Partition", size: "6rem", cell: (p) => p.partition },
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
  { name: "Next offset", size: "8rem", minor: true, cell: (p) => p.applied_offset ?? "-" },
  { name: "Epoch", size: "minmax(8rem, 1.5fr)", minor: true, cell: (p) => <code>{p.epoch}</code> },
];

export function Partitions(): JSX.Element {
  const live = useLive<Partition[]>("partitions", (signal) => get("v1/partitions", { signal }));
  return (
    <section class="screen">
      <header class="title">
        <h1>Partitions</h1>
      </header>
      <Fault of={live.error} />
      <Rows label="partitions" columns={columns} rows={live.data ?? []} id={(p) => String(p.partition)} empty={live.data ? "The namespace has no partitions." : "Reading …"} />
    </section>
  );
}
