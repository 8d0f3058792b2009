/** Since when nothing has needed anybody, as far as this page has seen. */
export interface Quiet {
  since: number;
  /** The last of what needed somebody was settled then. Otherwise the page began to look then, and does not know what was before. */
  settled: boolean;
  last: number;
}

/** Between two readings of a page that looks on there is no more time than this. It is longer while nobody sees the page, or no engine answers. */
const gap = 100_000;

/** Keeps what an overview saw, in the reading at an instant, and after how long a silence it says nothing about the time between. */
export function saw(before: Quiet | null, o: { nothing: boolean; read: number; needed: number | undefined }): Quiet | null {
  if (!o.nothing) return null;
  if (before && o.read - before.last <= gap) return { ...before, last: o.read };
  return { since: o.read, settled: before === null && o.needed !== undefined && o.read - o.needed <= gap, last: o.read };
}
