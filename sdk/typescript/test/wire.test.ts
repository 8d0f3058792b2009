import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, mock, test } from "node:test";

import { ProtocolError } from "@platformatic/kafka";

import { Clock, durationMs, Lifetime, type Work } from "../src/attempt.js";
import { DeadlinePassed, Failure, failureOf, Refused, Retryable } from "../src/errors.js";
import type { Group } from "../src/group.js";
import { isFinal, type Outgoing, type Sender } from "../src/kafka.js";
import { decodeDone, encodeDone, Partition, type Span } from "../src/offsets.js";
import { homeOf } from "../src/producer.js";
import { Worker, type WorkOptions } from "../src/work.js";
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
    assert.deepEqual(sent, ["1"]); // the others wait for a third of the heartbeat
    assert.equal(life.end, by + 500e3);
    life.finish();
  });

  test("progress that is not JSON is an error at once, also without a heartbeat", async () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    for (const w of [work({}), work({ heartbeat: "20m" })]) {
      const life = new Lifetime(w, Date.now() + 600e3);
      life.begin(() => assert.fail("it was sent"));
      for (const value of [10n, cycle, NaN, new Map()]) await assert.rejects(life.show(value), { name: "TypeError", message: /JSON|BigInt/ });
      life.finish();
    }
  });

  test("a clock that is behind the owner's brings the end closer", () => {
    const now = Date.now();
    const w = work({ complete_by: new Date(now + 60e3).toISOString() });
    const clock = new Clock();
    assert.equal(clock.completeBy(w, new Date(now - 5e3).toISOString(), now), now + 60e3);
    assert.equal(clock.completeBy(w, new Date(now + 10e3).toISOString(), now), now + 50e3);
    assert.equal(clock.completeBy(w, new Date(now).toISOString(), now), now + 50e3); // the difference is remembered
    assert.equal(clock.completeBy(w, new Date(now).toISOString(), now + 4e3), now + 53e3); // and shrinks
    assert.equal(clock.completeBy(work({ ...w, complete_within: "5s" }), undefined, now), now + 5e3);
  });
});

// The clock of an owner is 50 s behind the log that it took over, so its time goes at half speed until then.
test("requests of an owner whose log is ahead are not late", () => {
  const clock = new Clock();
  const start = Date.now();
  for (let second = 0; second <= 120; second++) {
    const now = start + second * 1e3;
    const decided = Math.max(now, start + 50e3 + second * 500);
    const w = work({ complete_by: new Date(decided + 10e3).toISOString() });
    const left = clock.completeBy(w, new Date(decided).toISOString(), now) - now;
    assert.ok(left > 0 && left <= 10e3, `second ${second}: ${left} ms are left`);
  }
});

describe("a worker", () => {
  const warned: string[] = [];
  const worker = (o: Partial<WorkOptions> = {}) =>
    new Worker({
      agent: "a", instance: "i", reports: "sagalog.reports", concurrency: 1, sender: undefined as never, keys: undefined, operation: () => undefined,
      log: (_, message) => warned.push(message), ...o,
    });
  const record = (offset: number, w: Work) => ({ offset, key: w.task, value: JSON.stringify(w), headers: new Map([["ce_type", "sagalog.work"]]) });
  afterEach(() => {
    mock.timers.reset();
    warned.length = 0;
  });

  test("warns of requests that come too late, at most every 10 s", () => {
    const now = Date.now();
    mock.timers.enable({ apis: ["Date"], now });
    const [p, w] = [new Partition(0, 0, [], 0), worker()];
    const late = (offset: number) => w.received(p, [record(offset, work({ task: `t${offset}`, complete_by: new Date(now - 1).toISOString() }))]);
    for (const offset of [0, 1, 2]) late(offset);
    mock.timers.tick(10_000);
    late(3);
    assert.deepEqual(warned.map((m) => /of the task (\w+)\)/.exec(m)?.[1]), ["t0", "t3"]);
    assert.equal(p.due(Date.now())?.next, 4);
  });

  test("warns of progress that is not delivered", async () => {
    const results: unknown[] = [];
    const send = ({ value }: Outgoing) => {
      const { result, progress } = JSON.parse(value ?? "") as { result: string; progress?: unknown };
      results.push(result, progress);
      return result === "progress" ? Promise.reject(new Error("the broker is away")) : Promise.resolve(0n);
    };
    let done = () => {};
    const ended = new Promise<void>((resolve) => (done = resolve));
    const w = worker({ sender: { send } as unknown as Sender, operation: () => async (a) => a.progress({ epoch: 1 }).finally(done) });
    const p = new Partition(0, 0, [], 0);
    const confirming = w.confirmLoop({ confirm: () => Promise.resolve(new Set([p])) } as unknown as Group);
    w.received(p, [record(0, work({ heartbeat: "20m", complete_by: new Date(Date.now() + 600e3).toISOString() }))]);
    await ended;
    await w.drain(600e3);
    await confirming;
    assert.deepEqual(results, ["progress", { epoch: 1 }, "completed", undefined]);
    assert.deepEqual(warned, ["progress of the step s of the task t was not delivered: the broker is away"]);
  });
});

test("a record that the brokers refuse is told from one that is not acknowledged", () => {
  for (const code of ["TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE"]) {
    assert.ok(isFinal(new ProtocolError(code)), code);
  }
  for (const code of ["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER"]) assert.ok(!isFinal(new ProtocolError(code)), code);
  assert.ok(!isFinal(new Error("the connection broke")));
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
