// Single attempts, and what is refused before anything is sent, without brokers.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, test } from "node:test";

import { encode, type UndoAttempt, type Work } from "../src/attempt.js";
import type { Group } from "../src/group.js";
import { Agent, type AgentOptions, Producer, type ProducerOptions, Refused, type Submission } from "../src/index.js";
import type { Outgoing, Sender } from "../src/kafka.js";
import { Partition } from "../src/offsets.js";
import { Worker } from "../src/work.js";
import { root, until } from "./world.js";

interface Report {
  result: string;
  progress?: unknown;
  output?: unknown;
  effect?: string;
  error?: { class: string; code?: string; message: string; detail?: unknown };
}

/** A worker with one operation, and one request of it. */
function attempt(operation: (a: UndoAttempt<any, any>) => unknown, more: Partial<Work> = {}) {
  const reports: Report[] = [];
  const warned: string[] = [];
  const send = ({ value }: Outgoing) => {
    reports.push(JSON.parse(value ?? "") as Report);
    return Promise.resolve(0n);
  };
  const worker = new Worker({
    agent: "a", instance: "i", reports: "sagalog.reports", concurrency: 1, sender: { send } as unknown as Sender, keys: undefined,
    operation: () => operation, log: (_, message) => warned.push(message),
  });
  const p = new Partition(0, 0, [], 0);
  const confirming = worker.confirmLoop({ confirm: () => Promise.resolve(new Set([p])) } as unknown as Group);
  const work = {
    task: "t", run: 1, workflow: "w", version: 1, step: "s", operation: "do", attempt: 1, idempotency_key: "k",
    complete_by: new Date(Date.now() + 3600e3).toISOString(), home: 0, ticket: "1-a/1", ...more,
  };
  worker.received(p, [{ offset: 0, key: "t", value: JSON.stringify(work), headers: new Map([["ce_type", "sagalog.work"]]) }]);
  /** What is to be committed. */
  const end = async (grace: number) => {
    assert.equal(await worker.drain(grace), 0);
    await confirming;
    return p.due(Date.now())?.next ?? 0;
  };
  return { reports, warned, end };
}

/** Runs an operation to its end, and returns its report. */
async function reportOf(operation: () => unknown) {
  const { reports, warned, end } = attempt(operation);
  await until(() => reports.length > 0);
  await end(600e3);
  return { report: reports[0] as Report, warned };
}

describe("a stop", () => {
  const cases = [
    ["in_doubt", (reason: unknown) => reason],
    ["done_unknown", () => new Refused("the run was given up", { code: "mine", detail: { n: 1 }, effect: "done_unknown" })],
  ] as const;
  for (const [effect, thrown] of cases) {
    // Delivered again, the request would have nothing left of its first heartbeat.
    test(`during a long attempt is reported as ${effect}, behind the newest progress`, async () => {
      let shown = false;
      const { reports, warned, end } = attempt(
        async (a) => {
          for (let n = 0; n < 3; n++) await a.progress({ n });
          shown = true;
          await new Promise((resolve) => a.signal.addEventListener("abort", resolve));
          throw thrown(a.signal.reason);
        },
        { heartbeat: "20m" },
      );
      await until(() => shown && reports.length > 0);
      assert.equal(await end(300), 1, "its request is finished");
      const [first, last, report, ...more] = reports;
      assert.deepEqual([first?.progress, last?.result, last?.progress, more], [{ n: 0 }, "progress", { n: 2 }, []]);
      assert.deepEqual(report?.error, { class: "unavailable", code: "stopped", message: "the agent is stopping" });
      assert.deepEqual([report?.result, report?.effect], ["failed", effect]);
      assert.deepEqual(warned, [], "what a stop makes an operation throw is no fault");
    });
  }

  test("during another attempt is not reported, and its request is given back", async () => {
    let begun = false;
    const { reports, end } = attempt(async (a) => {
      begun = true;
      await new Promise((resolve) => a.signal.addEventListener("abort", resolve));
      throw a.signal.reason;
    });
    await until(() => begun);
    assert.equal(await end(300), 0);
    assert.deepEqual(reports, []);
  });
});

test("an error that an operation does not expect is logged with its stack", async () => {
  const { report, warned } = await reportOf(function theFaultyOne() {
    return (undefined as unknown as { x: number }).x;
  });
  assert.deepEqual([report.error?.class, report.effect], ["retryable", "in_doubt"]);
  assert.equal(warned.length, 1);
  assert.match(warned[0] ?? "", /attempt 1 of the step s of the task t: TypeError: Cannot read properties of undefined[^]*at theFaultyOne/);
});

test("a failure that an operation chose is not logged", async () => {
  const { warned } = await reportOf(() => Promise.reject(new Refused("no")));
  assert.deepEqual(warned, []);
});

const cycle: unknown[] = [];
cycle.push(cycle);
const UNENCODABLE: Record<string, unknown> = {
  NaN: { n: NaN }, infinity: -Infinity, function: () => 1, "member that is a function": { f() {} }, symbol: Symbol("s"), Map: new Map([[1, 2]]), Set: { s: new Set() },
  "undefined in a list": [1, undefined], bigint: { n: 10n }, cycle, Error: new Error("e"), RegExp: /x/, bytes: new Uint8Array(2), promise: { p: Promise.resolve(1) },
};

describe("an output that JSON cannot hold is refused", () => {
  for (const [name, value] of Object.entries(UNENCODABLE)) {
    test(name, async () => {
      const { report, warned } = await reportOf(() => ({ value }));
      assert.deepEqual([report.result, report.error?.class, report.error?.code, report.effect], ["failed", "permanent", "output_encoding", "in_doubt"]);
      assert.match(warned[0] ?? "", /the output cannot be written as JSON/);
    });
  }

  test("what it can hold is stored as it was returned", async () => {
    class Receipt {
      constructor(readonly id: string) {}
    }
    const value = { a: [1, null, "x", true], b: undefined, at: new Date(0), r: new Receipt("r"), n: Object.create(null) as object };
    const { report } = await reportOf(() => value);
    assert.deepEqual(report.output, { a: [1, null, "x", true], at: "1970-01-01T00:00:00.000Z", r: { id: "r" }, n: {} });
    assert.equal(encode(undefined), "null");
  });
});

test("an output that is too long is refused at once, and logged", async () => {
  const { report, warned } = await reportOf(() => "x".repeat(300 << 10));
  assert.deepEqual([report.error?.class, report.error?.code, report.effect], ["permanent", "output_limit", "done_unknown"]);
  assert.match(warned[0] ?? "", /262144 are allowed/);
});

test("progress that is too long is an error of the operation", async () => {
  const { reports, end } = attempt((a) => a.progress("x".repeat(16 << 10)), { heartbeat: "20m" });
  await until(() => reports.length > 0);
  await end(600e3);
  assert.match(reports[0]?.error?.message ?? "", /progress has 16386 bytes; 16384 are allowed/);
});

test("a submission that no engine accepts is a fault", async () => {
  const producer = new Producer({ brokers: "127.0.0.1:1" });
  const cases: [Record<string, unknown>, RegExp][] = [
    [{ id: "" }, /1 to 255 bytes/], [{ id: ".." }, /is not \. or \.\./], [{ id: "é".repeat(128) }, /1 to 255 bytes/], [{ id: "a\nb" }, /control characters/],
    [{ workflow: "" }, /cannot name a workflow/], [{ workflow: undefined }, /cannot name a workflow/], [{ workflow: "Bad Name" }, /cannot name a workflow/],
    [{ priority: 1001 }, /from -1000 to 1000/], [{ priority: 0.5 }, /a whole number/], [{ input: NaN }, /JSON cannot hold NaN/], [{ input: { s: new Set() } }, /JSON cannot hold Set/],
    [{ input: "x".repeat(2 << 20) }, /a namespace takes at most/], [{ labels: { "a:b": "c" } }, /label "a:b"/],
    [{ labels: Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`l${n}`, "c"])) }, /at most 32 labels/], [{ not_before: "10m" }, /not_before is not one of id, workflow/],
  ];
  for (const [more, message] of cases) await assert.rejects(producer.submit({ workflow: "order", ...more } as Submission), { name: "TypeError", message });
  await producer.close();
});

test("wrong options and names are faults where they are given", () => {
  const brokers = "127.0.0.1:1";
  assert.throws(() => new Agent("card", { brokers, concurency: 4 } as AgentOptions), { name: "TypeError", message: /concurency is not one of brokers, namespace/ });
  assert.throws(() => new Producer({ brokers, timeOut: 4 } as ProducerOptions), { name: "TypeError", message: /timeOut is not one of/ });
  for (const concurrency of [0, 129, 1.5]) assert.throws(() => new Agent("card", { brokers, concurrency }), { name: "AgentError", message: /from 1 to 128/ });
  assert.throws(() => new Agent("card", { brokers, sealKeyFile: "/no/such/file" }), { name: "AgentError", message: /the key file \/no\/such\/file cannot be used/ });
  for (const name of ["Bad Name", "do", "undo"]) assert.throws(() => new Agent("card", { brokers }).operation(name, () => 1), { name: "AgentError", message: /cannot name an operation/ });
});

test("an agent that cannot work says so in one line", () => {
  const program = `import { Agent } from ${JSON.stringify(join(root, "dist-test", "src", "index.js"))}; await new Agent("card", { brokers: "127.0.0.1:1" }).step(() => 1).runForever();`;
  const ended = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  assert.equal(ended.status, 1);
  assert.match(ended.stderr, /^sagalog: the brokers 127.0.0.1:1 cannot be reached: .*\n$/);
});
