import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, segment } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { Fault } from "./fault";
import { State, Took } from "./words";

type FanOut = components["schemas"]["FanOutDocument"];
export type Item = components["schemas"]["ItemDocument"];
type ItemList = components["schemas"]["ItemList"];

const number = new Intl.NumberFormat("en");
const pageSize = 50;

/** How far a fan-out has come, in words. */
export const soFar = (f: FanOut): string =>
  [
    `${number.format(f.completed)} of ${number.format(f.count)} items done`,
    ...(["failed", "skipped", "undone", "left", "running"] as const).filter((part) => f[part] > 0).map((part) => `${number.format(f[part])} ${part === "left" ? "left as they are" : part}`),
  ].join(", ");

/** The parts of a bar of the given width, one behind the other: what is done, what has failed, what was undone or skipped, and what runs. */
export function bar(f: FanOut, width: number): { tone: string; from: number; width: number }[] {
  let from = 0;
  return ([["good", f.completed], ["bad", f.failed], ["wait", f.skipped + f.undone + f.left], ["run", f.running]] as const).map(([tone, n]) => {
    const part = { tone, from, width: f.count === 0 ? 0 : (n / f.count) * width };
    from += part.width;
    return part;
  });
}

const path = (task: string, step: string): string => `v1/tasks/${segment(task)}/steps/${segment(step)}/items`;

/** The item of a task with this ID, such as send[17]; undefined for other steps, and until it is read. */
export function useItem(task: string, id: string | undefined, at: string | undefined): Item | undefined {
  const [, step, index] = /^(.+)\[(\d+)\]$/.exec(id ?? "") ?? [];
  const live = useLive<ItemList>(step ? `item ${task} ${id} ${at ?? ""}` : null, (signal) => get(path(task, step ?? ""), { query: { after: index === "0" ? undefined : String(Number(index) - 1), limit: 1, at }, signal }));
  return live.data?.items.find((s) => s.id === id);
}

/** The items of a fan-out, page by page. */
export function Items({ task, step, fanOut, at, choose }: { task: string; step: string; fanOut: FanOut; at: string | undefined; choose: (id: string) => void }): JSX.Element {
  const [state, filter] = useState("");
  const [pages, turn] = useState<string[]>([]);
  const after = pages.at(-1);
  const live = useLive<ItemList>(`items ${task} ${step} ${state} ${after ?? ""} ${at ?? ""}`, (signal) => get(path(task, step), { query: { state: state || undefined, after, limit: pageSize, at }, signal }));
  const list = live.data?.items ?? [];
  const next = live.data?.next;
  return (
    <section aria-label={`items of ${step}`}>
      <h3>Items</h3>
      <p>{soFar(fanOut)}</p>
      <label>
        Show{" "}
        <select
          value={state}
          onChange={(e) => {
            filter(e.currentTarget.value);
            turn([]);
          }}
        >
          <option value="">all</option>
          <option value="failed,timed_out,undo_failed">failed</option>
          <option value="running,waiting,undoing">running or waiting</option>
          <option value="completed">done</option>
          <option value="undone">undone</option>
        </select>
      </label>
      <Fault of={live.error} />
      {list.length === 0 ? (
        <p class="faint">{live.data ? "No items." : "Reading …"}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Item</th>
              <th scope="col">State</th>
              <th scope="col">Attempt</th>
              <th scope="col">Took</th>
              <th scope="col">Error</th>
            </tr>
          </thead>
          <tbody>
            {list.map((s) => (
              <tr key={s.id}>
                <th scope="row">
                  <button type="button" class="link" onClick={() => choose(s.id)}>
                    {s.id}
                  </button>
                </th>
                <td>
                  <State of={s.state} />
                </td>
                <td>{s.attempt || ""}</td>
                <td>{s.started_at && s.ended_at ? <Took from={s.started_at} to={s.ended_at} /> : ""}</td>
                <td>{s.error?.message}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <button type="button" disabled={pages.length === 0} onClick={() => turn(pages.slice(0, -1))}>
        Previous
      </button>{" "}
      <button type="button" disabled={next === undefined} onClick={() => next !== undefined && turn([...pages, next])}>
        Next
      </button>
    </section>
  );
}
