// Which work requests of a partition are finished, and the commit that says so.
//
// The committed offset never passes a request that is unfinished and not expired, so an instance that dies loses nothing. The commit's metadata
// lists the finished ones above it, such as "sagalog-done-1 3+2,1+40": 3 not known to be finished, 2 finished, 1 not known, 40 finished.

/** A run of offsets, end not included. */
export type Span = readonly [first: number, end: number];

export interface Position {
  readonly next: number;
  readonly metadata: string;
}

const FORMAT = "sagalog-done-1 ";
const METADATA_BYTES = 4096; // the default of the broker setting offset.metadata.max.bytes

export function encodeDone(next: number, done: readonly Span[]): string {
  const parts = done.map(([first, end]) => {
    const part = `${first - next}+${end - first}`;
    next = end;
    return part;
  });
  return parts.length > 0 ? FORMAT + parts.join(",") : "";
}

/** Text of any other form was written by another program, and means nothing. */
export function decodeDone(next: number, text: string | null | undefined): Span[] {
  if (!text?.startsWith(FORMAT)) return [];
  const out: Span[] = [];
  for (const part of text.slice(FORMAT.length).split(",")) {
    const [, gap, length] = /^(\d{1,15})\+(\d{1,15})$/.exec(part) ?? [];
    if (gap === undefined || Number(length) === 0) return [];
    const first = next + Number(gap);
    next = first + Number(length);
    out.push([first, next]);
  }
  return out;
}

const inside = (spans: readonly Span[], offset: number) => spans.some(([first, end]) => first <= offset && offset < end);

/** One assignment of a partition of the work topic to this instance. */
export class Partition {
  /** Whether the partition is still ours. An assignment that has ended commits nothing. */
  owned = true;
  /** Where the next fetch begins. */
  fetchAt: number;
  readonly #open = new Map<number, number>();
  #next: number;
  #committed: Position | undefined;

  /**
   * Another instance may have received the requests below `shared`: the end of the partition, asked for after the assignment. `done` is what
   * was finished before.
   */
  constructor(
    readonly number: number,
    start: number,
    readonly done: readonly Span[],
    readonly shared: number,
  ) {
    this.#next = this.fetchAt = start;
  }

  /** Records that a request was read; `until` is its end. Returns false if it was finished before. */
  read(offset: number, until: number): boolean {
    this.#next = Math.max(this.#next, offset + 1);
    if (inside(this.done, offset)) return false;
    this.#open.set(offset, until);
    return true;
  }

  finish(offset: number): void {
    this.#open.delete(offset);
  }

  /** Makes a request unfinished again, because the commit that was to record its end did not succeed. */
  reopen(offset: number, until: number): void {
    this.#open.set(offset, until);
  }

  /** The runs that are finished from an offset on. */
  finishedFrom(low: number): Span[] {
    const runs: Span[] = [];
    let first = low;
    for (const offset of [...this.#open.keys()].sort((a, b) => a - b)) {
      if (offset > first) runs.push([first, offset]);
      if (offset >= first) first = offset + 1;
    }
    if (this.#next > first) runs.push([first, this.#next]);
    for (const [from, end] of this.done) {
      const start = Math.max(from, this.#next, low);
      if (start < end) runs.push([start, end]);
    }
    return runs;
  }

  /** What to commit now; undefined if the last commit says it already. */
  due(now: number): Position | undefined {
    let low = this.#next;
    for (const [offset, until] of this.#open) if (until > now) low = Math.min(low, offset);
    low = Math.max(low, this.#committed?.next ?? 0);
    const metadata = encodeDone(low, this.finishedFrom(low));
    if (low === this.#committed?.next && metadata === this.#committed.metadata) return undefined;
    // The runs that an earlier commit recorded must stay recorded. If not all fit, that commit stands until the low offset rises.
    return metadata.length <= METADATA_BYTES ? { next: low, metadata } : undefined;
  }

  acknowledge(stored: Position): void {
    this.#committed = stored;
  }

  /** Whether the last commit says that the request is finished. */
  covers(offset: number): boolean {
    const last = this.#committed;
    return last !== undefined && (offset < last.next || inside(decodeDone(last.next, last.metadata), offset));
  }
}
