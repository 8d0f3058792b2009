// The same agent on three brokers of Apache Kafka, one of which is killed and comes back.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Agent, Producer } from "../src/index.js";
import { root, World } from "./world.js";

const TASKS = 90;
const script = join(root, "..", "..", "deploy", "kafka", "kafka.sh");
const kafka = (...args: string[]) => execFileSync(script, args, { stdio: ["ignore", "inherit", "inherit"] });
const ends: (() => Promise<void>)[] = [];

after(async () => {
  for (const end of ends) await end();
});

/** Starts brokers, and returns their folder and their addresses. */
function brokers(world: World, ...flags: string[]): [dir: string, addresses: string] {
  const dir = mkdtempSync(join(tmpdir(), "sagalog-ts-kafka-"));
  ends.push(async () => {
    await world.stop();
    kafka("down", dir, "--now");
    rmSync(dir, { recursive: true, force: true });
  });
  kafka("up", dir, "--port", "0", ...flags);
  return [dir, readFileSync(join(dir, "bootstrap"), "utf8").trim()];
}

const skip = process.env["SAGALOG_TEST_KAFKA"] === "1" ? false : "needs Apache Kafka: set SAGALOG_TEST_KAFKA=1";

test("every task is processed although a broker is killed", { skip }, async () => {
  const world = new World();
  const [dir, addresses] = brokers(world, "--brokers", "3");
  await world.serve(addresses, {
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

test("an agent and a producer authenticate, over TLS", { skip }, async () => {
  const world = new World();
  const [dir, addresses] = brokers(world, "--sasl", "--tls");
  const password = /^admin=(.*)$/m.exec(readFileSync(join(dir, "credentials"), "utf8"))?.[1] ?? "";
  const ca = join(dir, "ca.pem");
  const file = join(dir, "password");
  writeFileSync(file, password);
  await world.serve(addresses, { one: "steps: {only: {agent: one}}\n" }, "--tls-ca", ca, "--sasl", "SCRAM-SHA-512", "--sasl-user", "admin", "--sasl-password-file", file);
  for (const mechanism of ["SCRAM-SHA-512", "PLAIN"] as const) {
    const connection = { brokers: addresses, tls: { ca: readFileSync(ca) }, sasl: { mechanism, username: "admin", password } };
    const producer = new Producer(connection);
    const id = `by-${mechanism}`;
    await producer.submit({ id, workflow: "one" });
    await producer.close();
    const agent = new Agent("one", connection);
    const tasks: string[] = [];
    agent.step((a) => void tasks.push(a.task));
    const running = agent.run();
    await world.fact(id, "TaskProcessed");
    agent.stop();
    await running;
    assert.deepEqual(tasks, [id]);
  }
});
