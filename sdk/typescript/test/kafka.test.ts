// The same agent on three brokers of Apache Kafka, one of which is killed and comes back.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { root, World } from "./world.js";

const TASKS = 90;
const script = join(root, "..", "..", "deploy", "kafka", "kafka.sh");
const dir = mkdtempSync(join(tmpdir(), "sagalog-ts-kafka-"));
const kafka = (...args: string[]) => execFileSync(script, args, { stdio: ["ignore", "inherit", "inherit"] });
const world = new World();
let up = false;

after(async () => {
  await world.stop();
  if (up) kafka("down", dir, "--now");
  rmSync(dir, { recursive: true, force: true });
});

const skip = process.env["SAGALOG_TEST_KAFKA"] === "1" ? false : "needs Apache Kafka: set SAGALOG_TEST_KAFKA=1";

test("every task is processed although a broker is killed", { skip }, async () => {
  up = true;
  kafka("up", dir, "--brokers", "3", "--port", "0");
  await world.serve(readFileSync(join(dir, "bootstrap"), "utf8").trim(), {
    order: `defaults: {complete_within: 1m, retry: {attempts: 10, backoff: 500ms, then: undo}}
steps:
  charge: {agent: card, operation: capture, undo: {}}
  ship: {needs: [charge], agent: card, undo: {}}
`,
  });
  const agents = ["card-0", "card-1"].map((instance) => world.agent("card", { INSTANCE: instance }));
  const ids = Array.from({ length: TASKS }, (_, i) => `order-${i}`);
  for (const [i, id] of ids.entries()) {
    await world.submit({ id, workflow: "order", input: { amount: i } });
    await world.service.received(ids[Math.max(0, i - 10)] as string, 1); // the work goes on while the broker is away
    if (i === TASKS / 3) kafka("kill", dir, "1");
    if (i === (2 * TASKS) / 3) kafka("start", dir, "1");
  }
  for (const id of ids) await world.fact(id, "TaskProcessed");
  for (const id of ids) {
    const done = world.service.of(id).filter((c) => c.outcome === "done");
    assert.deepEqual(done.map((c) => c.step), ["charge", "ship"], id);
  }
  for (const agent of agents) {
    agent.child.kill("SIGTERM");
    assert.equal(await agent.ended, 0, agent.output.join(""));
  }
  assert.match(await world.verify(), /^proved +ledgers/m);
});
