import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../keys";

export interface Column<T> {
  name: string;
  /** A CSS grid size, such as minmax(8rem, 2fr). */
  size: string;
  /** The column goes first on narrow screens. */
  minor?: boolean;
  /** The column is in a second line of the row on narrow screens. */
  below?: boolean;
  cell: (row: T) => ComponentChildren;
}

/** What the screen of a table may call. */
export interface Handle {
  /** Whether rows may be added at the top: the table is scrolled to the top, and no row is in use. */
  idle: () => boolean;
  toTop: () => void;
}

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  id: (row: T) => string;
  open?: (row: T) => void;
  selected?: ReadonlySet<string>;
  select?: (row: T) => void;
  /** Called while the last rows are near, even if an earlier call is still working. */
  more?: (() => void) | undefined;
  /** How many rows there are in all, with those not read yet, if that is known. */
  total?: number | undefined;
  /** Called with the rows that are in view. */
  look?: (first: number, last: number) => void;
  handle?: { current: Handle | null };
  empty: ComponentChildren;
}

interface Drawn<T> {
  row: T;
  columns: readonly Column<T>[];
  state: string;
  node: JSX.Element;
}

/** The height of a row, and of one that has a second line on a narrow screen. */
const oneLine = 36;
const twoLines = 60;
/** Narrow is what style.css takes for it. */
const narrow = window.matchMedia("(max-width: 52rem)");
const where = (c: { minor?: boolean; below?: boolean }): string => (c.below ? "below" : c.minor ? "minor" : "");
/** How many rows outside the view are in the document, and by how many rows the table scrolls before it draws again. */
const spare = 12;
const stride = 6;
/** The next rows are read when the view is this many rows from the last one. */
const ahead = 60;

/**
 * A table of any number of rows, of which only those in sight are in the document. Keys: j and k or the arrows move, Enter opens, x
 * selects. The place stays on its row while rows come and go.
 */
export function Rows<T>(p: Props<T>): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ first: 0, last: 30 });
  const [at, setAt] = useState<string | null>(null);
  const [small, setSmall] = useState(narrow.matches);
  useLayoutEffect(() => {
    const turn = () => setSmall(narrow.matches);
    narrow.addEventListener("change", turn);
    return () => narrow.removeEventListener("change", turn);
  }, []);
  const height = small && p.columns.some((c) => c.below) ? twoLines : oneLine;
  useLayoutEffect(() => {
    const e = box.current;
    if (!e) return;
    const look = () => {
      const first = Math.floor(e.scrollTop / height / stride) * stride;
      const last = Math.ceil((e.scrollTop + e.clientHeight) / height / stride) * stride;
      setView((v) => (v.first === first && v.last === last ? v : { first, last }));
    };
    const watch = new ResizeObserver(look);
    watch.observe(e);
    e.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      watch.disconnect();
      e.removeEventListener("scroll", look);
    };
  }, [height]);
  const index = at === null ? -1 : p.rows.findIndex((r) => p.id(r) === at);
  const from = Math.max(0, Math.min(view.first, p.rows.length) - spare);
  const to = Math.min(p.rows.length, view.last + spare);
  useLayoutEffect(() => p.look?.(view.first, view.last), [view]);
  if (p.handle) {
    p.handle.current = {
      idle: () => at === null && box.current?.scrollTop === 0 && !box.current.matches(":hover, :focus-within"),
      toTop: () => {
        setAt(null);
        if (box.current) box.current.scrollTop = 0;
      },
    };
  }
  const near = p.more !== undefined && view.last + ahead >= p.rows.length;
  useLayoutEffect(() => {
    if (near) p.more?.();
  });
  const move = (by: number) => {
    const i = Math.min(p.rows.length - 1, Math.max(0, index < 0 ? (by > 0 ? 0 : p.rows.length - 1) : index + by));
    const row = p.rows[i];
    const e = box.current;
    if (row === undefined || !e) return;
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur(); // so that Enter opens the row, and presses no button
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
  const latest = useRef(p); // a row may have been drawn with earlier properties
  latest.current = p;
  const drawn = useRef(new Map<string, Drawn<T>>());
  const before = drawn.current;
  drawn.current = new Map();
  /** Draws a row, or reuses what was drawn before: while the table scrolls, only rows that come into view cost anything. */
  const draw = (row: T, index: number): JSX.Element => {
    const id = p.id(row);
    const state = `${index} ${id === at} ${p.selected?.has(id)} ${height}`;
    let d = before.get(id);
    if (d?.row !== row || d.columns !== p.columns || d.state !== state) d = { row, columns: p.columns, state, node: one(row, index) };
    drawn.current.set(id, d);
    return d.node;
  };
  const one = (row: T, index: number): JSX.Element => {
    const id = p.id(row);
    return (
      <div
        key={id}
        role="row"
        aria-rowindex={index + 2}
        aria-selected={p.selected?.has(id)}
        class={`row${height === twoLines ? " tall" : ""}${id === at ? " at" : ""}${p.selected?.has(id) ? " selected" : ""}`}
        style={{ ...grid, transform: `translateY(${index * height}px)` }}
        onClick={() => setAt(id)}
        onDblClick={() => latest.current.open?.(row)}
      >
        {p.select && (
          <span role="cell" class="pick">
            <input type="checkbox" aria-label={`select ${id}`} checked={p.selected?.has(id) ?? false} onChange={() => latest.current.select?.(row)} />
          </span>
        )}
        {p.columns.map((c) => (
          <span role="cell" class={where(c)} key={c.name}>
            {c.cell(row)}
          </span>
        ))}
      </div>
    );
  };
  const grid = { gridTemplateColumns: (p.select ? "2rem " : "") + p.columns.map((c) => c.size).join(" ") };
  return (
    <div class="rows" role="table" aria-label={p.label} aria-rowcount={p.total !== undefined ? p.total + 1 : p.more ? -1 : p.rows.length + 1}>
      <div class="row head" role="row" aria-rowindex={1} style={grid}>
        {p.select && <span role="columnheader" class="pick" aria-label="selected" />}
        {p.columns.map((c) => (
          <span role="columnheader" class={where(c)} key={c.name}>
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
          {p.rows.slice(from, to).map((row, i) => draw(row, from + i))}
        </div>
      </div>
    </div>
  );
}
