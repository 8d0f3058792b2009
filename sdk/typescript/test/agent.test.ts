import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { Agent, type AgentOptions } from "../src/index.js";
import { until, World } from "./world.js";

// Attempts have minutes, so that a busy machine costs none of them, except where a test is about their end.
const DEFAULTS = "defaults: {complete_within: 5m, retry: {attempts: 5, backoff: 100ms, then: undo}}\n";
const WORKFLOWS = {
  order: `${DEFAULTS}steps:
  charge: {agent: card, operation: capture, undo: {}}
  ship: {needs: [charge], agent: card, undo: {}}
  mail: {needs: [ship], agent: card}
`,
  training: `${DEFAULTS}steps:
  train: {agent: card, operation: train, heartbeat: 15s, complete_within: 30m}
`,
  late: `${DEFAULTS}steps:
  slow: {agent: card, operation: silent, complete_within: 10s}
`,
  fragile: `${DEFAULTS}steps:
  charge: {agent: fragile, undo: {}}
`,
  stopping: `steps:
  s: {agent: stopping, operation: stopping, heartbeat: 2m, complete_within: 30m, retry: {attempts: 2, backoff: 100ms, then: undo}}
`,
  leaving: `${DEFAULTS}steps:
  charge: {agent: leaving, undo: {}}
`,
  approval: `${DEFAULTS}steps:
  charge: {agent: card, operation: capture, undo: {}}
  ask: {needs: [charge], wait: {signal: answer}, complete_within: 1h}
  ship: {needs: [ask], agent: card}
`,
};

describe("an agent in TypeScript", () => {
  const world = new World();
  const { service } = world;

  before(async () => {
    await world.dev(WORKFLOWS);
    world.agent("card");
  });
  after(() => world.stop());

  describe("at work", { concurrency: true }, () => {
    test("its steps are done, with an output and one key each", async () => {
      await world.submit({ id: "order/1 ✓", workflow: "order", input: { amount: 20 }, labels: { customer: "c-1" } });
      await world.fact("order/1 ✓", "TaskProcessed");
      const calls = service.of("order/1 ✓");
      assert.deepEqual(calls.map((c) => [c.step, c.operation, c.outcome, c.attempt]), [["charge", "do", "done", 1], ["ship", "do", "done", 1], ["mail", "do", "done", 1]]);
      assert.equal(new Set(calls.map((c) => c.identifier)).size, 3);
      const completed = (await world.history("order/1 ✓")).filter((f) => f.type === "StepCompleted");
      assert.deepEqual(completed.map((f) => f.data["output"]), calls.map((c) => ({ key: c.identifier, step: c.step })));
    });

    test("a step that failed is retried with the same key", async () => {
      service.plan("order-2", "ship", "unwell", "unwell");
      await world.submit({ id: "order-2", workflow: "order", input: {} });
      await world.fact("order-2", "TaskProcessed");
      const ship = service.of("order-2").filter((c) => c.step === "ship");
      assert.deepEqual(ship.map((c) => [c.attempt, c.outcome]), [[1, "refused"], [2, "refused"], [3, "done"]]);
      assert.equal(new Set(ship.map((c) => c.identifier)).size, 1);
      const failed = (await world.history("order-2")).filter((f) => f.type === "StepFailed");
      assert.equal(failed.length, 2);
      for (const f of failed) {
        assert.equal(f.data["effect"], "none");
        assert.deepEqual(f.data["error"], { class: "retryable", code: "http_503", message: "the service answered 503", detail: { reason: "unwell" } });
      }
    });

    test("a refused step is not retried, and the steps before it are undone", async () => {
      service.plan("order-3", "ship", "refuse");
      await world.submit({ id: "order-3", workflow: "order", input: { amount: 7 } });
      await world.fact("order-3", "TaskUndone");
      const [charge, ship, undo, ...more] = service.of("order-3");
      assert.deepEqual([charge?.step, ship?.step, undo?.step, undo?.operation, more], ["charge", "ship", "charge", "undo", []]);
      assert.equal(undo?.undoes, charge?.identifier);
      assert.notEqual(undo?.identifier, charge?.identifier);
      assert.deepEqual(undo?.body, { input: { amount: 7 }, output: { key: charge?.identifier, step: "charge" }, lastProgress: null });
      const failed = (await world.history("order-3")).find((f) => f.type === "StepFailed");
      assert.deepEqual(failed?.data["error"], { class: "permanent", code: "http_422", message: "the service refused", detail: { reason: "refuse" } });
    });

    test("progress keeps an attempt alive, and the next one gets it", async () => {
      await world.submit({ id: "training-1", workflow: "training", input: { seconds: 20 } });
      await world.fact("training-1", "TaskProcessed");
      const history = await world.history("training-1");
      assert.ok(history.some((f) => f.type === "StepProgressed"), "no progress was recorded");
      const [first, second] = service.of("training-1");
      assert.equal(first?.attempt, 1); // it lasted longer than the heartbeat of 15 s
      assert.equal(history.find((f) => f.type === "StepFailed")?.attempt, 1);
      const { lastProgress } = second?.body as { lastProgress: { epoch: number } | null };
      assert.ok(lastProgress !== null && lastProgress.epoch >= 1, `the next attempt got ${JSON.stringify(lastProgress)}`);
    });

    test("nothing is reported after the end of an attempt", async () => {
      await world.submit({ id: "late-1", workflow: "late", input: {} });
      await world.fact("late-1", "TaskProcessed");
      const history = await world.history("late-1");
      assert.equal(history.find((f) => f.type === "Timeout")?.attempt, 1);
      const completed = history.filter((f) => f.type === "StepCompleted");
      assert.equal(completed.length, 1);
      assert.notDeepEqual(completed[0]?.data["output"], { attempt: "too late" });
      assert.equal(new Set(service.of("late-1").map((c) => c.identifier)).size, 1);
    });

    test("an agent that was killed in a call makes one effect", async () => {
      const first = world.agent("fragile", { INSTANCE: "fragile-0" });
      service.plan("fragile-1", "charge", "mute");
      await world.submit({ id: "fragile-1", workflow: "fragile", input: {} });
      await service.received("fragile-1", 1); // it took effect, and the agent does not know
      first.child.kill("SIGKILL");
      await first.ended;
      world.agent("fragile", { INSTANCE: "fragile-0" });
      await world.fact("fragile-1", "TaskProcessed");
      const calls = service.of("fragile-1");
      assert.deepEqual(calls.map((c) => [c.attempt, c.outcome]), [[1, "done"], [1, "repeated"]]);
      assert.equal(new Set(calls.map((c) => c.identifier)).size, 1);
      assert.equal((await world.history("fragile-1")).filter((f) => f.type === "StepStarted").length, 1);
    });

    test("an agent that stops gives back what it cannot end, and leaves", async () => {
      const first = world.agent("leaving", { INSTANCE: "leaving-0", GRACE_MS: "500" });
      service.plan("leaving-1", "charge", "hang");
      await world.submit({ id: "leaving-1", workflow: "leaving", input: {} });
      await service.received("leaving-1", 1);
      first.child.kill("SIGTERM");
      assert.equal(await first.ended, 0, first.output.join(""));
      assert.match(first.output.join(""), /the agent has left/);
      await until(async () => !(await world.cli("agents", "list")).includes("leaving-0"));
      const second = world.agent("leaving", { INSTANCE: "leaving-1" });
      await world.fact("leaving-1", "TaskProcessed");
      assert.deepEqual(service.of("leaving-1").map((c) => [c.attempt, c.outcome]), [[1, "unknown"], [1, "done"]]);
      second.child.kill("SIGTERM");
      assert.equal(await second.ended, 0, second.output.join(""));
    });

    // The second attempt fails on its own. If the first one counted, it would be the last.
    test("an agent that stops during a long attempt says so, and it does not count", async () => {
      const first = world.agent("stopping", { INSTANCE: "stopping-0", GRACE_MS: "10000" });
      await world.submit({ id: "stopping-1", workflow: "stopping", input: {} });
      await world.fact("stopping-1", "StepProgressed");
      first.child.kill("SIGTERM");
      assert.equal(await first.ended, 0, first.output.join(""));
      world.agent("stopping", { INSTANCE: "stopping-1" });
      await world.fact("stopping-1", "TaskProcessed");
      const history = await world.history("stopping-1");
      const failed = history.filter((f) => f.type === "StepFailed").map((f) => [f.attempt, (f.data["error"] as { code: string }).code]);
      assert.deepEqual(failed, [[1, "stopped"], [2, "broken"]]);
      assert.deepEqual(history.find((f) => f.type === "StepCompleted")?.data["output"], { attempt: 3, from: { done: 1 } });
    });

    test("of two processes with one name, one ends and says so", async () => {
      const both = [0, 1].map(() => world.agent("twins", { INSTANCE: "twin" }));
      const [first, rc] = await Promise.race(both.map(async (p) => [p, await p.ended] as const));
      assert.equal(rc, 1);
      assert.match(first.output.join(""), /warn another process uses the instance name twin: give each its own/);
    });

    test("a producer signals and cancels, each once", async () => {
      await world.submit({ id: "approval-1", workflow: "approval", input: {} });
      await world.submit({ id: "approval-2", workflow: "approval", input: {} });
      for (let i = 0; i < 2; i++) await world.producer.signal("approval-1", "answer", { yes: true }, { id: "s-1" });
      await world.fact("approval-1", "TaskProcessed");
      const signals = (await world.history("approval-1")).filter((f) => f.type === "SignalReceived");
      assert.deepEqual(signals.map((f) => f.data["payload"]), [{ yes: true }]);
      await world.fact("approval-2", "WaitStarted");
      await world.producer.cancel("approval-2", { reason: "too late" });
      await world.fact("approval-2", "TaskUndone");
      assert.deepEqual(service.of("approval-2").map((c) => [c.step, c.operation]), [["charge", "do"], ["charge", "undo"]]);
    });

    test("a task ID takes effect once", async () => {
      const twice = { id: "order-4", workflow: "order", input: { amount: 1 } };
      const receipts = [await world.submit(twice), await world.submit(twice)];
      assert.equal(receipts[0]?.partition, receipts[1]?.partition);
      await world.fact("order-4", "TaskProcessed");
      assert.equal((await world.history("order-4")).filter((f) => f.type === "Submitted").length, 1);
      assert.equal(service.of("order-4").length, 3);
    });
  });

  test("an agent that cannot work says why", async () => {
    const serving = (options: AgentOptions) => new Agent("card", options).step(() => ({})).run();
    await assert.rejects(serving({ brokers: world.brokers, namespace: "nowhere" }), { name: "AgentError", message: /the namespace nowhere does not exist at .*: start a node/ });
    await assert.rejects(serving({ brokers: "127.0.0.1:1" }), { name: "AgentError", message: /the brokers 127.0.0.1:1 cannot be reached: Connection to 127.0.0.1:1 failed/ });
    for (const name of ["", "My Agent!", "Card"]) assert.throws(() => new Agent(name, { brokers: world.brokers }), { name: "AgentError", message: /cannot name an agent/ });
    await assert.rejects(new Agent("card", { brokers: world.brokers }).run(), { name: "AgentError", message: /has no operation/ });
  });

  // Each acknowledged submission is one task, each attempt has one outcome, and the calls of the service are those that the log explains.
  test("the engine proves that log, submissions and calls agree", async () => {
    assert.match(await world.verify(), /^proved +ledgers/m);
  });
});

describe("a sealed namespace", () => {
  const world = new World();
  after(() => world.stop());

  test("the agent sees the content, and the log does not", async () => {
    const file = join(world.dir, "seal.key");
    await world.cli("key", "create", file);
    await world.dev(WORKFLOWS, "--seal-key-file", file);
    world.agent("card", { SEAL_KEY_FILE: file });
    world.service.plan("secret-1", "mail", "refuse");
    await world.cli("task", "submit", "-w", "order", "--id", "secret-1", "--input", '{"pin": "4711-secret"}');
    await world.fact("secret-1", "TaskUndone");
    assert.deepEqual(world.service.of("secret-1")[0]?.body, { input: { pin: "4711-secret" }, output: null, lastProgress: null });
    const fromLog = await world.cli("task", "history", "secret-1", "--from-log", "--brokers", world.brokers, "-o", "json");
    for (const hidden of ["4711-secret", "the service refused", "reason\": \"refuse"]) assert.ok(!fromLog.includes(hidden), fromLog);
    // A node with the key opens the error, and puts it back in its place.
    const { steps } = JSON.parse(await world.cli("task", "get", "secret-1", "-o", "json")) as { steps: { id: string; error?: unknown }[] };
    assert.deepEqual(steps.find((s) => s.id === "mail")?.error, { class: "permanent", code: "http_422", message: "the service refused", detail: { reason: "refuse" } });
  });
});
