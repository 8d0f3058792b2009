import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../keys";

export interface Column<T> {
  name: string;
  /** A CSS grid size, such as minmax(8rem, 2fr). */
  size: string;
  /** The column goes first on narrow screens. */
  minor?: boolean;
  cell: (row: T) => ComponentChildren;
}

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  id: (row: T) => string;
  open?: (row: T) => void;
  selected?: ReadonlySet<string>;
  select?: (row: T) => void;
  /** Called when the last rows come into sight. */
  more?: (() => void) | undefined;
  empty: ComponentChildren;
}

const height = 36;
const spare = 12;

/**
 * A table of any number of rows, of which only those in sight are in the document. Keys: j and k or the arrows move, Enter opens, x
 * selects. The place stays on its row while rows come and go.
 */
export function Rows<T>(p: Props<T>): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 900 });
  const [at, setAt] = useState<string | null>(null);
  useLayoutEffect(() => {
    const e = box.current;
    if (!e) return;
    const look = () => setView({ top: e.scrollTop, height: e.clientHeight });
    const watch = new ResizeObserver(look);
    watch.observe(e);
    e.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      watch.disconnect();
      e.removeEventListener("scroll", look);
    };
  }, []);
  const index = at === null ? -1 : p.rows.findIndex((r) => p.id(r) === at);
  const from = Math.max(0, Math.floor(view.top / height) - spare);
  const to = Math.min(p.rows.length, Math.ceil((view.top + view.height) / height) + spare);
  const near = p.more !== undefined && to >= p.rows.length;
  useLayoutEffect(() => {
    if (near) p.more?.();
  }, [near, p.rows.length]);
  const move = (by: number) => {
    const i = Math.min(p.rows.length - 1, Math.max(0, index < 0 ? (by > 0 ? 0 : p.rows.length - 1) : index + by));
    const row = p.rows[i];
    const e = box.current;
    if (row === undefined || !e) return;
    setAt(p.id(row));
    const y = i * height;
    if (y < e.scrollTop) e.scrollTop = y;
    else if (y + 2 * height > e.scrollTop + e.clientHeight) e.scrollTop = y + 2 * height - e.clientHeight;
  };
  const current = p.rows[index];
  useKeys({
    j: { does: "next row", run: () => move(1) },
    k: { does: "row before", run: () => move(-1) },
    ArrowDown: { does: "next row", run: () => move(1) },
    ArrowUp: { does: "row before", run: () => move(-1) },
    ...(p.open ? { Enter: { does: "open the row", run: () => current !== undefined && p.open?.(current) } } : {}),
    ...(p.select ? { x: { does: "select the row", run: () => current !== undefined && p.select?.(current) } } : {}),
  });
  const grid = { gridTemplateColumns: (p.select ? "2rem " : "") + p.columns.map((c) => c.size).join(" ") };
  return (
    <div class="rows" role="table" aria-label={p.label} aria-rowcount={p.rows.length + 1}>
      <div class="row head" role="row" aria-rowindex={1} style={grid}>
        {p.select && <span role="columnheader" aria-label="selected" />}
        {p.columns.map((c) => (
          <span role="columnheader" class={c.minor ? "minor" : ""} key={c.name}>
            {c.name}
          </span>
        ))}
      </div>
      <div class="body" ref={box} tabIndex={0} role="rowgroup" aria-label={`rows of ${p.label}`}>
        {p.rows.length === 0 && (
          <div role="row">
            <div role="cell" class="empty">
              {p.empty}
            </div>
          </div>
        )}
        <div role="presentation" style={{ height: `${p.rows.length * height}px`, position: "relative" }}>
          {p.rows.slice(from, to).map((row, i) => {
            const id = p.id(row);
            return (
              <div
                key={id}
                role="row"
                aria-rowindex={from + i + 2}
                aria-selected={p.selected?.has(id)}
                class={`row${id === at ? " at" : ""}${p.selected?.has(id) ? " selected" : ""}`}
                style={{ ...grid, transform: `translateY(${(from + i) * height}px)` }}
                onClick={() => setAt(id)}
                onDblClick={() => p.open?.(row)}
              >
                {p.select && (
                  <span role="cell">
                    <input type="checkbox" aria-label={`select ${id}`} checked={p.selected?.has(id) ?? false} onChange={() => p.select?.(row)} />
                  </span>
                )}
                {p.columns.map((c) => (
                  <span role="cell" class={c.minor ? "minor" : ""} key={c.name}>
                    {c.cell(row)}
                  </span>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
