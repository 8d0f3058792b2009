import { test, expect } from "@playwright/test";
import { type Held, merge, none, pageOf, rest } from "../src/parts/list";

interface Row {
  id: string;
  state?: string;
}
const id = (r: Row): string => r.id;
const above = (a: Row, b: Row): boolean => a.id > b.id;
const rows = (text: string): Row[] => text.split(" ").filter(Boolean).map((word) => ({ id: word.replace("!", ""), ...(word.endsWith("!") ? { state: "new" } : {}) }));
const text = (h: Held<Row>): string => h.rows.map((r) => r.id + (r.state ? "!" : "")).join(" ");
const first = (h: Held<Row>, words: string, next?: string, insert = false): Held<Row> => merge(h, { rows: rows(words), next }, { after: null, insert, id, above });
const later = (h: Held<Row>, words: string, next?: string): Held<Row> => {
  const at = rest(h, id);
  if (!at) throw new Error("the list is over");
  return merge(h, { rows: rows(words), next }, { after: at.after, insert: false, id, above });
};

/** Three pages of three rows. */
const long = (): Held<Row> => later(later(first(none, "i h g", "g."), "f e d", "d."), "c b a");

test("pages follow each other until there is none", () => {
  expect(text(long())).toBe("i h g f e d c b a");
  expect(rest(long(), id)).toBeUndefined();
  expect(rest(later(first(none, "i h g", "g."), "f e d", "d."), id)).toEqual({ after: "d", cursor: "d." });
});

test("new rows wait until they may come in, and push none out of the list", () => {
  const waiting = first(long(), "k! j! i!", "i.");
  expect(text(waiting)).toBe("i! h g f e d c b a");
  expect(waiting.waiting).toBe(2);
  const shown = first(waiting, "k! j! i!", "i.", true);
  expect(text(shown)).toBe("k! j! i! h g f e d c b a");
  expect(shown.waiting).toBe(0);
});

test("rows that match no longer are gone, and reading goes on where they were", () => {
  expect(text(first(long(), "i g f", "f."))).toBe("i g f e d c b a");
  expect(text(first(first(none, "i h g", "g."), "i g f", "f."))).toBe("i g f"); // rows below all others move none
  const shorter = first(first(none, "c b a", "a."), "c b", undefined);
  expect(text(shorter)).toBe("c b");
  expect(rest(shorter, id)).toBeUndefined();
  const without = merge(later(first(none, "i h g", "g."), "f e d", "d."), { rows: rows("f e c"), next: "c." }, { after: "g", insert: true, id, above });
  expect(text(without)).toBe("i h g f e c");
  expect(rest(without, id)).toEqual({ after: "c", cursor: "c." });
});

test("the page in sight is read again", () => {
  const h = long();
  expect(pageOf(h, 2, id)).toBeNull();
  expect(pageOf(h, 4, id)).toEqual({ after: "g", cursor: "g." });
  expect(pageOf(h, 8, id)).toEqual({ after: "d", cursor: "d." });
  expect(text(merge(h, { rows: rows("f! e! d!"), next: "d." }, { after: "g", insert: false, id, above }))).toBe("i h g f! e! d! c b a");
  expect(merge(h, { rows: rows("f!"), next: "d." }, { after: "gone", insert: false, id, above })).toBe(h);
});

test("if more have come than a page holds, the list begins again with them", () => {
  const gap = first(long(), "z y x", "x.");
  expect(gap.gap).toBe(true);
  expect(text(gap)).toBe("i h g f e d c b a");
  const shown = first(gap, "z y x", "x.", true);
  expect(text(shown)).toBe("z y x");
  expect(rest(shown, id)).toEqual({ after: "x", cursor: "x." });
});

test("a page without rows is not the end", () => {
  const h = first(none, "", "next");
  expect(rest(h, id)).toEqual({ after: "", cursor: "next" });
  expect(text(later(h, "b a"))).toBe("b a");
});
