import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";

import { Clock, durationMs, Lifetime, type Work } from "../src/attempt.js";
import { DeadlinePassed, Failure, failureOf, Refused, Retryable } from "../src/errors.js";
import { decodeDone, encodeDone, Partition, type Span } from "../src/offsets.js";
import { homeOf } from "../src/producer.js";
import { root } from "./world.js";

const work = (w: Partial<Work>): Work => ({
  task: "t", run: 1, workflow: "w", version: 1, step: "s", operation: "do", attempt: 1, idempotency_key: "k", complete_by: new Date(Date.now() + 3600e3).toISOString(), home: 0, ticket: "1-a/1", ...w,
});

describe("the wire format", () => {
  test("the home partition of a key is that of the table in FORMAT.md", () => {
    const format = readFileSync(join(root, "..", "..", "events", "FORMAT.md"), "utf8");
    const rows = [...format.matchAll(/^\| `(.+)` \| -?\d+ \| (\d) \|$/gm)];
    assert.ok(rows.length >= 8);
    for (const [, key, home] of rows) assert.equal(homeOf(key as string, 8), Number(home), key);
  });

  test("the metadata of a commit is that of FORMAT.md, and is read back", () => {
    const done: Span[] = [[13, 15], [16, 56]];
    assert.equal(encodeDone(10, done), "sagalog-done-1 3+2,1+40");
    assert.deepEqual(decodeDone(10, "sagalog-done-1 3+2,1+40"), done);
    for (const foreign of [null, "", "member-1", "sagalog-done-2 1+1", "sagalog-done-1 ", "sagalog-done-1 1", "sagalog-done-1 -1+2", "sagalog-done-1 1+0", "sagalog-done-1 1+2,", "sagalog-done-1 x+2"]) {
      assert.deepEqual(decodeDone(5, foreign), [], String(foreign));
    }
  });

  test("durations are read as Go writes them", () => {
    for (const [text, ms] of [["500ms", 500], ["1h30m", 5_400_000], ["1.5s", 1_500], [undefined, 0]] as const) assert.equal(durationMs(text), ms);
  });
});

// Requests are read and finished in any order, and the instance dies. What a commit covered is never read again, and what is open is.
test("a finished request that a commit covers never begins again", () => {
  let seed = 1;
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  for (let round = 0; round < 200; round++) {
    const now = 1_000;
    let p = new Partition(0, 0, [], 0);
    let stored = { next: 0, metadata: "" };
    const open = new Set<number>();
    const covered = new Set<number>();
    for (let end = 0, step = 0; step < 60; step++) {
      const of = [...open];
      if (random(3) > 0 || of.length === 0) {
        const offset = (end += 1 + random(2)) - 1;
        assert.ok(p.read(offset, 2_000));
        open.add(offset);
      } else {
        const offset = of[random(of.length)] as number;
        p.finish(offset);
        open.delete(offset);
        const due = p.due(now);
        if (due !== undefined && random(4) > 0) {
          stored = due;
          p.acknowledge(due);
        }
        if (p.covers(offset)) covered.add(offset);
      }
      if (random(15) > 0) continue;
      p = new Partition(0, stored.next, decodeDone(stored.next, stored.metadata), end); // another instance
      for (let offset = stored.next; offset < end; offset++) {
        const begins = p.read(offset, 2_000);
        assert.ok(!begins || !covered.has(offset), `${offset} was covered, and begins again`);
        assert.ok(begins || !open.has(offset), `${offset} is open, and is skipped`);
        if (begins) open.add(offset);
      }
      for (const offset of open) assert.ok(offset >= stored.next, `${offset} is open, and the commit is above it`);
    }
  }
});

describe("the time of an attempt", () => {
  test("it ends at its complete-by time, with that reason", async () => {
    const life = new Lifetime(work({}), Date.now() + 20);
    life.begin(() => Promise.resolve());
    await new Promise((resolve) => life.signal.addEventListener("abort", resolve));
    assert.ok(life.signal.reason instanceof DeadlinePassed);
    await assert.rejects(life.show(1), DeadlinePassed);
  });

  test("acknowledged progress extends it, from before it was sent and up to the cap", async () => {
    const by = Date.now() + 600e3;
    const sent: unknown[] = [];
    const w = work({ heartbeat: "20m", complete_by: new Date(by).toISOString(), cap_by: new Date(by + 500e3).toISOString() });
    const life = new Lifetime(w, by);
    life.begin((value) => {
      sent.push(value);
      return Promise.resolve();
    });
    for (const value of [1, 2, 3]) await life.show(value);
    assert.deepEqual(sent, [1]); // the others wait for a third of the heartbeat
    assert.equal(life.end, by + 500e3);
    life.finish();
  });

  test("a clock that is behind the owner's brings the end closer", () => {
    const now = Date.now();
    const w = work({ complete_by: new Date(now + 60e3).toISOString() });
    const clock = new Clock();
    assert.equal(clock.completeBy(w, new Date(now - 5e3).toISOString(), now), now + 60e3);
    assert.equal(clock.completeBy(w, new Date(now + 10e3).toISOString(), now), now + 50e3);
    assert.equal(clock.completeBy(w, new Date(now).toISOString(), now), now + 50e3); // the difference is remembered
    assert.equal(clock.completeBy(work({ ...w, complete_within: "5s" }), undefined, now), now + 5e3);
  });
});

test("an error is retryable and in doubt unless it says otherwise", () => {
  const cause = new Error("connect ECONNREFUSED");
  const f = failureOf(new TypeError("fetch failed", { cause }));
  assert.deepEqual([f.errorClass, f.effect, f.message], ["retryable", "in_doubt", "fetch failed: connect ECONNREFUSED"]);
  const refused = new Refused("no", { code: "declined", effect: "none" });
  assert.equal(failureOf(refused), refused);
  assert.ok(refused instanceof Failure && refused.errorClass === "permanent");
  assert.equal(new Retryable("later", { retryAfter: 2_000 }).retryAfter, 2_000);
});
