// What agents and producers need of Kafka: to send one record, and to read partitions from an offset. How requests are retried is decided here,
// and not by the client library, because an attempt must not wait longer than its time.

import { setTimeout as sleep } from "node:timers/promises";
import type { ConnectionOptions as TLSOptions } from "node:tls";

import { type BaseOptions, type ConnectionPool, Consumer, Producer as Client, type SASLOptions, stringSerializers } from "@platformatic/kafka";

import { AgentError, messageOf, NotAcknowledged, Rejected } from "./errors.js";

export interface Connection {
  /** `host:port` of some brokers. */
  brokers: string | string[];
  /** The beginning of all topic names. Default `sagalog`. */
  namespace?: string;
  /** TLS, with the options of node:tls. Default: plain text. */
  tls?: TLSOptions;
  /** Default: no authentication. */
  sasl?: SASLOptions;
  /** Takes messages for an operator. Default: warnings go to standard error. */
  log?: (level: "info" | "warn", message: string) => void;
}

/** Of an agent, an operation or a workflow. */
export const NAME = /^[a-z][a-z0-9_-]{0,63}$/;
export const NAME_RULE = "use a lower-case letter, followed by up to 63 of a-z, 0-9, _ and -";

export const CONNECTION = ["brokers", "namespace", "tls", "sasl", "log"];

/** Throws a TypeError for a name that does not exist, such as a misspelt one, which JavaScript would ignore. */
export function checkNames(given: object, ...all: string[]): void {
  const unknown = Object.keys(given).find((name) => !all.includes(name));
  if (unknown !== undefined) throw new TypeError(`${unknown} is not one of ${all.join(", ")}`);
}

export type Log = NonNullable<Connection["log"]>;

export const toStandardError: Log = (level, message) => {
  if (level === "warn") process.stderr.write(`sagalog: ${message}\n`);
};

export const namespaceOf = (c: Connection) => c.namespace ?? "sagalog";

/** The options that all clients share. They do not retry: see above. */
export function clientOptions(c: Connection, role: string): BaseOptions {
  return {
    clientId: `sagalog-${role}`,
    bootstrapBrokers: typeof c.brokers === "string" ? c.brokers.split(",") : c.brokers,
    retries: 0,
    timeout: 5_000,
    connectTimeout: 5_000,
    requestTimeout: 10_000,
    ...(c.tls ? { tls: c.tls } : {}),
    ...(c.sasl ? { sasl: c.sasl } : {}),
  };
}

/**
 * Makes a client ask for a broker that its metadata does not list without throwing: while a broker is away, the library would throw such an error
 * where nobody can catch it.
 */
export function guarded<C extends { connections: ConnectionPool }>(client: C): C {
  const pool = client.connections;
  const get = pool.get.bind(pool) as (...args: unknown[]) => unknown;
  pool.get = ((broker: unknown, answer: (error: Error) => void) => {
    return broker === undefined ? answer(new Error("the broker is not there now")) : get(broker, answer);
  }) as ConnectionPool["get"];
  return client;
}

/** Whether the library says that an error has a property, also if it is one of several. */
export function hasError(error: unknown, property: string, value: unknown): boolean {
  const found = (error as { findBy?: (p: string, v: unknown) => unknown }).findBy?.(property, value);
  return found !== null && found !== undefined;
}

/** A record. No value is a tombstone. */
export interface Outgoing {
  topic: string;
  partition: number;
  key: string;
  value?: string;
  headers?: Record<string, string>;
}

/** The headers of a CloudEvent: its attributes, without those that are empty. */
export function event(ce_type: string, ce_id: string, ce_source: string, more: { ce_subject?: string; ce_traceparent?: string | undefined } = {}): Record<string, string> {
  const attributes = { ce_specversion: "1.0", ce_id, ce_source, ce_type, ce_time: new Date().toISOString(), ...more };
  return Object.fromEntries(Object.entries(attributes).flatMap(([k, v]) => (v ? [[k, v]] : [])));
}

const RETRY_MS = 100;
const FINAL = ["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "POLICY_VIOLATION", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"];

/** Whether the brokers would refuse the record again. */
export const isFinal = (error: unknown) => FINAL.some((code) => hasError(error, "apiId", code));

/** Sends records, each of which all in-sync replicas must acknowledge. */
export class Sender {
  readonly #client: Client<string, string, string, string>;

  constructor(c: Connection, role: string) {
    this.#client = guarded(new Client({ ...clientOptions(c, role), acks: -1, serializers: stringSerializers }));
  }

  /** Sends a record, again and again until the instant. Returns its offset. A record may be stored twice. */
  async send(record: Outgoing, until: number): Promise<bigint> {
    for (;;) {
      try {
        const { offsets } = await this.#client.send({ messages: [record] });
        return offsets?.[0]?.offset ?? -1n;
      } catch (error) {
        this.#client.clearMetadata(); // the leader may be another one now
        if (isFinal(error)) {
          const remedy = "make it smaller, or see sagalog generate acls";
          throw new Rejected(`the brokers refuse the record for ${record.topic}: ${messageOf(error)}; ${remedy}`, { cause: error });
        }
        if (Date.now() + RETRY_MS >= until || this.#client.closed) {
          throw new NotAcknowledged(`the record for ${record.topic} was not acknowledged: ${messageOf(error)}`, { cause: error });
        }
        await sleep(RETRY_MS);
      }
    }
  }

  /** The number of partitions of a topic; 0 if it does not exist. */
  async partitions(topic: string): Promise<number> {
    try {
      return (await this.#client.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic)?.partitionsCount ?? 0;
    } catch (error) {
      if (messageOf(error).startsWith("Unknown topic")) return 0;
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

/** The number of partitions of the namespace. */
export async function partitionsOf(sender: Sender, c: Connection): Promise<number> {
  const n = await sender.partitions(`${namespaceOf(c)}.submissions`).catch((error: unknown) => {
    throw new AgentError(`the brokers ${String(c.brokers)} cannot be reached: ${messageOf(error)}`, { cause: error });
  });
  if (n === 0) throw new AgentError(`the namespace ${namespaceOf(c)} does not exist at ${String(c.brokers)}: start a node (sagalog dev, or sagalog serve) there first, or give another namespace`);
  return n;
}

/** A record that was read. */
export interface Incoming {
  offset: number;
  key: string;
  /** Undefined for a tombstone. */
  value: string | undefined;
  headers: Map<string, string>;
}

export interface Cursor {
  readonly number: number;
  fetchAt: number;
}

/** What a fetch found for a cursor, and where the next one begins. */
export interface Fetched<C extends Cursor> {
  cursor: C;
  records: Incoming[];
  next: number;
}

const FETCH_WAIT_MS = 500;
const CONTROL_BATCH = 0x20;

/** Reads partitions of one topic. It belongs to no group. */
export class Reader {
  readonly #client: Consumer<Buffer, Buffer, Buffer, Buffer>;

  constructor(
    c: Connection,
    role: string,
    readonly topic: string,
  ) {
    this.#client = guarded(new Consumer({ ...clientOptions(c, role), groupId: `${role}-reader`, maxWaitTime: FETCH_WAIT_MS }));
  }

  /** The partitions of the topic by the broker that leads them. */
  async leaders(partitions: readonly number[]): Promise<Map<number, number[]>> {
    const metadata = await this.#client.metadata({ topics: [this.topic], forceUpdate: true });
    const out = new Map<number, number[]>();
    for (const p of partitions) {
      const leader = metadata.topics.get(this.topic)?.partitions[p]?.leader ?? -1;
      if (leader < 0) throw new Error(`partition ${p} of ${this.topic} has no leader`);
      out.set(leader, [...(out.get(leader) ?? []), p]);
    }
    return out;
  }

  /** The offset after the last record of each partition, or, for "first", the offset of the first one. */
  async ends(partitions: readonly number[], which: "first" | "last"): Promise<Map<number, number>> {
    const timestamp = which === "first" ? -2n : -1n;
    await this.#client.metadata({ topics: [this.topic], forceUpdate: true });
    const found = await this.#client.listOffsets({ topics: [this.topic], partitions: { [this.topic]: [...partitions] }, timestamp });
    return new Map(partitions.map((p) => [p, Number(found.get(this.topic)?.[p] ?? 0n)]));
  }

  /**
   * Waits for records of partitions that one broker leads. It moves no cursor: who takes the records of one moves it to `next`, and who drops them
   * does not, so that they are read again.
   */
  async fetch<C extends Cursor>(node: number, cursors: readonly C[]): Promise<Fetched<C>[]> {
    const topicId = this.#client.currentMetadata?.topics.get(this.topic)?.id;
    if (topicId === undefined) throw new Error(`the brokers do not know ${this.topic}`);
    const partitions = cursors.map((c) => ({
      partition: c.number, currentLeaderEpoch: -1, fetchOffset: BigInt(c.fetchAt), lastFetchedEpoch: -1, partitionMaxBytes: 1 << 20,
    }));
    let response;
    try {
      response = await this.#client.fetch({ node, topics: [{ topicId, partitions }], maxBytes: 8 << 20, minBytes: 1 });
    } catch (error) {
      if (!hasError(error, "apiId", "OFFSET_OUT_OF_RANGE")) throw error;
      return this.#inside(cursors);
    }
    const out: Fetched<C>[] = [];
    for (const part of response.responses.flatMap((t) => t.partitions)) {
      const cursor = cursors.find((c) => c.number === part.partitionIndex);
      if (cursor === undefined) continue;
      const records: Incoming[] = [];
      let next = cursor.fetchAt;
      for (const batch of part.records ?? []) {
        for (const r of (batch.attributes & CONTROL_BATCH) === 0 ? batch.records : []) {
          const offset = Number(batch.firstOffset) + r.offsetDelta;
          if (offset < cursor.fetchAt) continue; // a batch may begin before the offset
          const headers = new Map(r.headers.map(([k, v]) => [k?.toString() ?? "", v?.toString() ?? ""]));
          records.push({ offset, key: r.key?.toString() ?? "", value: r.value?.toString(), headers });
        }
        next = Math.max(next, Number(batch.firstOffset) + batch.lastOffsetDelta + 1);
      }
      if (next > cursor.fetchAt) out.push({ cursor, records, next });
    }
    return out;
  }

  /** Where cursors go on whose records were deleted or lost. */
  async #inside<C extends Cursor>(cursors: readonly C[]): Promise<Fetched<C>[]> {
    const numbers = cursors.map((c) => c.number);
    const [first, last] = [await this.ends(numbers, "first"), await this.ends(numbers, "last")];
    return cursors.map((c) => ({ cursor: c, records: [], next: Math.min(Math.max(c.fetchAt, first.get(c.number) ?? 0), last.get(c.number) ?? 0) }));
  }

  async close(): Promise<void> {
    await this.#client.close(true);
  }
}
