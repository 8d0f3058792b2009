// Readings and answers at the worst moment, which cannot be had from outside: the calls of the Kafka client are held or their answers dropped. The
// broker is a real one.

import assert from "node:assert/strict";
import { after, afterEach, before, describe, mock, test } from "node:test";
import { setImmediate as macrotask } from "node:timers/promises";

import { Admin, Consumer, Producer as Client, stringSerializers } from "@platformatic/kafka";

import { NotAcknowledged } from "../src/errors.js";
import { Group } from "../src/group.js";
import { clientOptions, Reader, Sender } from "../src/kafka.js";
import { Keys } from "../src/keys.js";
import type { Partition } from "../src/offsets.js";
import { Producer } from "../src/producer.js";
import { until, World } from "./world.js";

const world = new World();
before(() => world.dev({ approval: "steps:\n  ask: {wait: {signal: answer}, complete_within: 1h}\n  again: {needs: [ask], wait: {signal: answer}, complete_within: 1h}\n" }));
after(() => world.stop());
afterEach(() => mock.restoreAll());

async function create(topic: string, partitions: number): Promise<void> {
  const admin = new Admin(clientOptions({ brokers: world.brokers }, "test"));
  await admin.createTopics({ topics: [topic], partitions, replicas: 1 });
  await admin.close();
}

describe("two instances of an agent", () => {
  /** A member of the group, and the offsets that it received. */
  function member(topic: string, instance: string) {
    const got = new Map<number, { offsets: number[]; partition: Partition }>();
    const received = (partition: Partition, records: { offset: number }[]) => {
      const of = got.get(partition.number) ?? { offsets: [], partition };
      for (const { offset } of records) {
        of.offsets.push(offset);
        partition.read(offset, Infinity);
      }
      if (records.length > 0) got.set(partition.number, of);
    };
    const log = () => {};
    const group = new Group({ connection: { brokers: world.brokers }, group: topic, topic, instance, log, room: () => Promise.resolve(), received });
    const ended = group.run();
    const leave = async () => {
      group.stop();
      group.leave();
      await ended;
      await group.close();
    };
    return { group, got, leave };
  }

  async function produce(topic: string, ...partitions: number[]): Promise<void> {
    const sender = new Sender({ brokers: world.brokers }, "test");
    for (const partition of partitions) await sender.send({ topic, partition, key: "k", value: "{}" }, Infinity);
    await sender.close();
  }

  test("what was fetched before a rebalance is not lost by it", async () => {
    await create("kept", 2);
    const held: { release: () => void; answer: Promise<unknown> }[] = [];
    let holding = true;
    const fetch = Consumer.prototype.fetch as (this: unknown, options: unknown) => Promise<unknown>;
    mock.method(Consumer.prototype, "fetch", function (this: unknown, options: unknown) {
      if (!holding) return fetch.call(this, options);
      let release = () => {};
      const released = new Promise<void>((resolve) => (release = resolve));
      const answer = released.then(() => fetch.call(this, options));
      held.push({ release, answer });
      return answer;
    });
    const first = member("kept", "a");
    const before = await until(() => held[0]); // it fetches from both partitions
    await produce("kept", 0, 1);
    const second = member("kept", "b");
    const [keeps] = await until(() => first.group.partitions.length === 1 && second.group.partitions.length === 1 && first.group.partitions);
    assert.ok(keeps !== undefined);
    before.release();
    await before.answer;
    await macrotask(); // it has been dropped
    holding = false;
    for (const { release } of held) release();
    await produce("kept", keeps);
    await until(() => first.got.get(keeps)?.offsets.includes(1));
    const { offsets, partition } = first.got.get(keeps) ?? assert.fail();
    assert.deepEqual(offsets, [0, 1]);
    partition.finish(1);
    assert.equal(partition.due(0)?.next, 0);
    await Promise.all([first.leave(), second.leave()]);
  });

  test("an instance that stops reads nothing more, whatever it is assigned", async () => {
    await create("stopping", 2);
    const readers: Reader[] = [];
    const leaders = Reader.prototype.leaders;
    mock.method(Reader.prototype, "leaders", function (this: Reader, partitions: number[]) {
      readers.push(this);
      return leaders.call(this, partitions);
    });
    const first = member("stopping", "a");
    const reader = await until(() => readers[0]);
    first.group.stop();
    readers.length = 0;
    const second = member("stopping", "b");
    await until(() => first.group.partitions.length === 1 && second.group.partitions.length === 1);
    await first.leave();
    await until(() => second.group.partitions.length === 2);
    assert.ok(!readers.includes(reader), "it read on");
    await second.leave();
  });
});

test("a record of the topic of keys that cannot be read hides no other one", async () => {
  await create("other.keys", 1);
  const client = new Client({ ...clientOptions({ brokers: world.brokers }, "test"), serializers: stringSerializers });
  const erasure = JSON.stringify({ subject: "s", erased: "2026-11-21T14:00:00Z" });
  const [bad, good] = [{ key: "key/k1", value: "{" }, { key: "erased/k2", value: erasure }];
  await client.send({ messages: [bad, good].map((m) => ({ topic: "other.keys", partition: 0, ...m })), acks: -1 }); // one batch
  await client.close();
  const warnings: string[] = [];
  const keys = new Keys({ brokers: world.brokers, namespace: "other" }, "no such file", (_, message) => warnings.push(message));
  const following = keys.run();
  const open = (id: string) => keys.open({ $sealed: `${id}..AAAA` }).then(() => assert.fail(), (error: Error) => error.message);
  const answer = await until(async () => {
    const message = await open("k2");
    return !message.includes("could not be read for a minute") && message; // it was not read to the end yet
  });
  assert.equal(answer, "the content was erased on 2026-11-21T14:00:00Z");
  assert.match(warnings.join("\n"), /^the record at offset 0 of the topic of keys cannot be read, and is skipped: /);
  await keys.close();
  await following;
});

describe("a producer", () => {
  test("writes signals and cancels to the topic that producers may write to", async () => {
    const reader = new Reader({ brokers: world.brokers }, "test", "sagalog.submissions");
    const signal = await world.producer.signal("nobody", "answer", 1, { id: "s-1" });
    const cancel = await world.producer.cancel("nobody", { id: "c-1" });
    assert.deepEqual([signal.request, cancel.request], ["s-1", "c-1"]);
    for (const [receipt, verb] of [[signal, "signal"], [cancel, "cancel"]] as const) {
      const [node] = [...(await reader.leaders([receipt.partition])).keys()];
      assert.ok(node !== undefined);
      const [found] = await reader.fetch(node, [{ number: receipt.partition, fetchAt: Number(receipt.offset) }]);
      const record = found?.records[0];
      assert.deepEqual([record?.key, record?.headers.get("ce_type"), record?.headers.get("ce_id")], ["nobody", `sagalog.request.${verb}`, receipt.request]);
    }
    await reader.close();
  });

  test("a request whose answer was lost is repeated with the ID in the error", async () => {
    const producer = new Producer({ brokers: world.brokers, timeout: 0 });
    const lost = async <R>(ask: () => Promise<R>): Promise<NotAcknowledged> => {
      const send = Client.prototype.send as (this: unknown, options: unknown) => Promise<unknown>;
      const dropping = mock.method(Client.prototype, "send", async function (this: unknown, options: unknown) {
        await send.call(this, options);
        throw new Error("the connection broke");
      });
      const error: unknown = await ask().then(() => assert.fail("acknowledged"), (e: unknown) => e);
      dropping.mock.restore();
      assert.ok(error instanceof NotAcknowledged && error.id !== "", String(error));
      return error;
    };
    const { id: task } = await lost(() => producer.submit({ workflow: "approval" }));
    await producer.submit({ id: task, workflow: "approval" });
    const signalled = await lost(() => producer.signal(task, "answer", 1));
    const receipt = await producer.signal(task, "answer", 1, { id: signalled.id });
    assert.deepEqual([receipt.id, receipt.request], [task, signalled.id]);
    await producer.signal(task, "answer", 2);
    await world.fact(task, "TaskProcessed");
    const history = await world.history(task);
    assert.deepEqual(history.filter((f) => f.type === "SignalReceived").map((f) => f.data["payload"]), [1, 2]);
    await producer.close();
  });

  test("a record that the brokers refuse is not one to send again", async () => {
    const payload = "x".repeat(2 << 20);
    await assert.rejects(world.producer.signal("task", "answer", payload, { id: "large" }), { name: "Rejected", id: "large", message: /sagalog.submissions: / });
  });
});
