import type { JSX } from "preact";
import { get } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { sized } from "./bytes";
import { Fault } from "./fault";
import { When } from "./words";

type Node = components["schemas"]["NodeDocument"];

const bytes = (n: number | undefined): string => (n === undefined ? "not known" : sized(n));

/** Another clock, as seen from this one. */
export const ahead = (d: string): string => (d.startsWith("-") ? `${d.slice(1)} behind` : /^0m?s$/.test(d) ? "the same" : `${d} ahead`);

/** The nodes: their disks, and their clocks. */
export function Nodes(): JSX.Element {
  const live = useLive<{ nodes: Node[] }>("nodes", (signal) => get("v1/nodes", { signal }));
  const list = live.data?.nodes ?? [];
  return (
    <section class="card" aria-label="nodes">
      <h2>Nodes</h2>
      <Fault of={live.error} />
      {!live.data ? (
        <p class="faint">Reading …</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Owns</th>
              <th scope="col">Started</th>
              <th scope="col">State on disk</th>
              <th scope="col">Free there</th>
              <th scope="col" title="Compared with the node that serves this page">
                Clock
              </th>
              <th scope="col" title="Compared with the node's own clock">
                Clock of its broker
              </th>
            </tr>
          </thead>
          <tbody>
            {list.map((n) => (
              <tr key={n.node}>
                <th scope="row">
                  {n.node} {n.silent && <span class="state bad">silent</span>}
                </th>
                <td>{n.partitions.length === 0 ? "none" : n.partitions.join(", ")}</td>
                <td>
                  <When at={n.started_at} />
                </td>
                <td>{bytes(n.state_bytes)}</td>
                <td>{bytes(n.free_bytes)}</td>
                <td>{n.clock_ahead === undefined ? "serves this page" : ahead(n.clock_ahead)}</td>
                <td>{n.broker_ahead === undefined ? "not known" : ahead(n.broker_ahead)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
