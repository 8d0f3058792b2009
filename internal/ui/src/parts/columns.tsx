import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { ListedTask } from "../api/client";
import { place, refine, to } from "../router";
import type { Column } from "./rows";
import "./saved.css";

/** The parameter of the address that names a label with a column, and so many of them at most. */
const parameter = "column";
const most = 8;

/** The labels that have a column of their own, as the address says. */
export const chosenLabels = (): readonly string[] => [...new Set(place.value.query.getAll(parameter))].slice(0, most);

/** The columns of labels. Without a choice one column has all labels. */
export function labelColumns(chosen: readonly string[]): Column<ListedTask>[] {
  if (chosen.length === 0) return [{ name: "Labels", size: "minmax(4rem, .25fr)", minor: true, cell: (t) => Object.entries(t.labels ?? {}).map(([k, v]) => `${k}:${v}`).join(" ") }];
  return chosen.map((k) => ({
    name: k,
    size: "minmax(5rem, .3fr)",
    minor: true,
    cell: (t) => {
      const v = t.labels?.[k];
      return v === undefined ? "" : <a href={to(["tasks"], withLabel(k, v))}>{v}</a>;
    },
  }));
}

/** The address of the list with one more filter. A row keeps what it was drawn with, so it goes by the labels alone. */
function withLabel(k: string, v: string): URLSearchParams {
  const query = new URLSearchParams({ label: `${k}:${v}` });
  for (const c of chosenLabels()) query.append(parameter, c);
  return query;
}

/** Chooses the labels that have a column: of those that the rows have, or by name. */
export function ChooseColumns({ rows }: { rows: readonly ListedTask[] }): JSX.Element {
  const [text, set] = useState("");
  const chosen = chosenLabels();
  const known = useMemo(() => {
    const names = new Set<string>();
    for (const t of rows) for (const k in t.labels) names.add(k);
    return names;
  }, [rows]);
  const put = (k: string, on: boolean) => refine({ [parameter]: on ? [...new Set([...chosen, k])] : chosen.filter((c) => c !== k) }, true);
  const add = (e: Event) => {
    e.preventDefault();
    if (text.trim() !== "") put(text.trim(), true);
    set("");
  };
  const full = chosen.length >= most;
  return (
    <details class="choose">
      <summary>columns{chosen.length > 0 ? `: ${chosen.join(", ")}` : ""}</summary>
      <form onSubmit={add} aria-label="labels with a column of their own">
        {[...new Set([...known, ...chosen])].sort().map((k) => (
          <label key={k}>
            <input type="checkbox" checked={chosen.includes(k)} disabled={full && !chosen.includes(k)} onChange={(e) => put(k, e.currentTarget.checked)} /> {k}
          </label>
        ))}
        {full ? (
          <p class="faint">{most} labels have a column, the most that fit.</p>
        ) : (
          <label>
            Another label <input value={text} onInput={(e) => set(e.currentTarget.value)} />
          </label>
        )}
      </form>
    </details>
  );
}
