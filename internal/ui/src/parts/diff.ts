/** A line of a comparison: only in the first text, only in the second, or in both. */
export interface Line {
  kind: "gone" | "new" | "same";
  text: string;
}

/** The most pairs of lines that are compared: more would hold the page up for long. */
const mostPairs = 4_000_000;
/** How many lines around a change are shown. */
const around = 3;

/** Compares two texts line by line; undefined if they are too long and differ too much. */
export function diff(a: string, b: string): readonly Line[] | undefined {
  const x = a.split("\n");
  const y = b.split("\n");
  let head = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  let tail = 0;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const middle = between(x.slice(head, x.length - tail), y.slice(head, y.length - tail));
  const same = (text: string): Line => ({ kind: "same", text });
  return middle && [...x.slice(0, head).map(same), ...middle, ...x.slice(x.length - tail).map(same)];
}

/** The longest common subsequence of lines, and what lies between. */
function between(x: readonly string[], y: readonly string[]): Line[] | undefined {
  if (x.length * y.length > mostPairs) return undefined;
  const wide = y.length + 1;
  const common = new Uint32Array((x.length + 1) * wide); // of x from i on and y from j on
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      common[i * wide + j] = x[i] === y[j] ? (common[(i + 1) * wide + j + 1] ?? 0) + 1 : Math.max(common[(i + 1) * wide + j] ?? 0, common[i * wide + j + 1] ?? 0);
    }
  }
  const out: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < x.length || j < y.length) {
    const [p, q] = [x[i], y[j]];
    if (p !== undefined && p === q) {
      out.push({ kind: "same", text: p });
      i++;
      j++;
    } else if (q === undefined || (p !== undefined && (common[(i + 1) * wide + j] ?? 0) >= (common[i * wide + j + 1] ?? 0))) {
      out.push({ kind: "gone", text: p ?? "" });
      i++;
    } else {
      out.push({ kind: "new", text: q });
      j++;
    }
  }
  return out;
}

/** The changes with a few lines around each; a number stands for so many lines in between that are the same. */
export function excerpt(lines: readonly Line[]): readonly (Line | number)[] {
  const near = lines.map(() => false);
  lines.forEach((l, i) => {
    if (l.kind !== "same") near.fill(true, Math.max(0, i - around), i + around + 1);
  });
  const out: (Line | number)[] = [];
  lines.forEach((l, i) => {
    const last = out.at(-1);
    if (near[i]) out.push(l);
    else if (typeof last === "number") out[out.length - 1] = last + 1;
    else out.push(1);
  });
  return out;
}
