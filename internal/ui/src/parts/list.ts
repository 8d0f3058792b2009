/** A page of a list that is sorted by what does not change: the newest first. */
export interface Page<T> {
  rows: readonly T[];
  next: string | undefined;
}

/** The rows of a list that have been read so far, in the list's order. */
export interface Held<T> {
  rows: readonly T[];
  /** The cursor at which the list continues after a row (top: above all rows). Only the last row of a page has one. If the last row of all has none, the list is complete. */
  marks: ReadonlyMap<string, string>;
  /** How many rows of the first page are kept back, because they would move the others. */
  waiting: number;
  /** More rows have come than a page holds, so the rows between the page and rows are not known. */
  gap: boolean;
}

/** The place above all rows: a page without rows need not be the last one. */
const top = "";

export const none: Held<never> = { rows: [], marks: new Map(), waiting: 0, gap: false };

/**
 * Merges a page into the list, after the row that it follows (null: it is the first page). Known rows get their new values, and rows that
 * should be on the page but are not are removed. Rows of later pages stay. With insert, unknown rows are added too; without it they are kept
 * back, so that nothing moves while somebody points at it. Rows at the end are always added, since they move no others.
 */
export function merge<T>(held: Held<T>, page: Page<T>, o: { after: string | null; insert: boolean; id: (row: T) => string; above: (a: T, b: T) => boolean }): Held<T> {
  const { id } = o;
  const at = new Map(held.rows.map((r, i) => [id(r), i]));
  const start = o.after === null || o.after === top ? 0 : (at.get(o.after) ?? -1) + 1;
  if (o.after && start === 0) return held; // it follows a row that is gone: a later reading repairs that
  const known = page.rows.map((r) => at.get(id(r)) ?? -1);
  const gap = o.after === null && held.rows.length > 0 && page.rows.length > 0 && page.next !== undefined && known.every((i) => i < 0);
  if (gap) return o.insert ? { rows: page.rows, marks: ends(page, id), waiting: 0, gap: false } : { ...held, waiting: page.rows.length, gap };
  const bottom = page.rows.at(-1);
  let end = page.next === undefined ? held.rows.length : Math.max(start, ...known.map((i) => i + 1));
  for (let r = held.rows[end]; bottom !== undefined && r !== undefined && o.above(r, bottom); r = held.rows[++end]); // they no longer match
  const lastKnown = known.findLastIndex((i) => i >= 0);
  const middle = page.rows.filter((_, i) => o.insert || (known[i] ?? -1) >= 0 || (i > lastKnown && end === held.rows.length));
  const has = new Set(middle.map(id));
  const keep = (r: T) => !has.has(id(r));
  const rows = [...held.rows.slice(0, start).filter(keep), ...middle, ...held.rows.slice(end).filter(keep)];
  const waits = page.rows.length - middle.length;
  const marks = moved(held, new Set(rows.map(id)), id);
  if (end === held.rows.length) {
    const last = rows.at(-1);
    const place = last === undefined ? top : id(last);
    marks.delete(place);
    if (page.next !== undefined) marks.set(place, page.next);
  }
  return { rows, marks, waiting: o.after === null ? waits : held.waiting, gap: false };
}

const ends = <T>(page: Page<T>, id: (row: T) => string): Map<string, string> => {
  const last = page.rows.at(-1);
  return new Map(last !== undefined && page.next !== undefined ? [[id(last), page.next]] : []);
};

/** The marks after some rows have been removed: the mark of a removed row moves to the row before it. */
function moved<T>(held: Held<T>, left: ReadonlySet<string>, id: (row: T) => string): Map<string, string> {
  const marks = new Map<string, string>();
  let before: string | undefined;
  for (const r of held.rows) {
    const mark = held.marks.get(id(r));
    if (left.has(id(r))) before = id(r);
    if (mark !== undefined && before !== undefined) marks.set(before, mark);
  }
  return marks;
}

/** Where to read the rows at an index again: the last mark before it; null for the first page. */
export function pageOf<T>(held: Held<T>, index: number, id: (row: T) => string): { after: string; cursor: string } | null {
  for (let i = Math.min(index, held.rows.length) - 1; i >= 0; i--) {
    const row = held.rows[i];
    const cursor = row === undefined ? undefined : held.marks.get(id(row));
    if (row !== undefined && cursor !== undefined) return { after: id(row), cursor };
  }
  return null;
}

/** Where the list continues after the last row; undefined at its end. */
export function rest<T>(held: Held<T>, id: (row: T) => string): { after: string; cursor: string } | undefined {
  const last = held.rows.at(-1);
  const after = last === undefined ? top : id(last);
  const cursor = held.marks.get(after);
  return cursor === undefined ? undefined : { after, cursor };
}
