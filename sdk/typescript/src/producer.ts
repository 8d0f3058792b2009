// A producer: it submits tasks, and sends requests about them, without an engine in the process.

import { randomUUID } from "node:crypto";

import { murmur2 } from "@platformatic/kafka";

import { encode } from "./attempt.js";
import { NotSent } from "./errors.js";
import { checkNames, CONNECTION, type Connection, event, NAME, NAME_RULE, namespaceOf, partitionsOf, Sender } from "./kafka.js";

/** A task to submit: events/FORMAT.md, "Submission". Durations are texts such as `10m`. */
export interface Submission {
  /** The task ID, by which the task takes effect once, however often it is submitted. Default: a random UUID. */
  id?: string;
  workflow: string;
  /** Default: the current version. */
  version?: number;
  input?: unknown;
  priority?: number;
  labels?: Record<string, string>;
  deadline?: string | Date;
  notBefore?: string | Date;
  replyTo?: string;
  replyKey?: string;
  /** The W3C trace context of the task. */
  traceparent?: string;
}

/** Where an acknowledged record is in the log. */
export interface Receipt {
  /** The ID of the task. */
  id: string;
  /** Of a signal or a cancel: its ID. */
  request?: string;
  partition: number;
  offset: bigint;
}

export interface ProducerOptions extends Connection {
  /** How long to wait for the acknowledgement of a record, in milliseconds. Default 30 s. */
  timeout?: number;
}

const timeText = (t: string | Date | undefined) => (t instanceof Date ? t.toISOString() : t);

/** The partition in which a task lives. */
export const homeOf = (task: string, partitions: number) => (murmur2(Buffer.from(task)) & 0x7fffffff) % partitions;

const MEMBERS = ["id", "workflow", "version", "input", "priority", "labels", "deadline", "notBefore", "replyTo", "replyKey", "traceparent"];
const SUBMISSION_BYTES = 1 << 20; // the most that a namespace may be set to take

/** Why no engine accepts a submission: events/FORMAT.md, "Submission". */
function faultOf(id: string, s: Submission, size: number): string | undefined {
  const { workflow, priority = 0, labels = {} } = s;
  const wrong = Object.entries(labels).find(([k, v]) => !/^[^:\0]+$/.test(k) || typeof v !== "string" || Buffer.byteLength(k) > 64 || Buffer.byteLength(v) > 256);
  if (!/^(?!\.\.?$)[^\0-\x1f\x7f-\x9f]+$/.test(id) || Buffer.byteLength(id) > 255) {
    return `"${id}" cannot be the ID of a task, which has 1 to 255 bytes without control characters, and is not . or ..; without an ID, one is made`;
  }
  if (typeof workflow !== "string" || !NAME.test(workflow)) return `"${workflow}" cannot name a workflow: ${NAME_RULE}`;
  if (!Number.isInteger(priority) || Math.abs(priority) > 1000) return `priority is ${priority}; it must be a whole number from -1000 to 1000`;
  if (Object.keys(labels).length > 32) return `a task has at most 32 labels, and these are ${Object.keys(labels).length}`;
  if (wrong !== undefined) return `label "${wrong[0]}" is "${wrong[1]}"; a key has 1 to 64 bytes without a colon, and a value is a text of up to 256 bytes`;
  return size <= SUBMISSION_BYTES ? undefined : `the submission has ${size} bytes; a namespace takes at most ${SUBMISSION_BYTES}, and half of that by default`;
}

export class Producer {
  readonly #options: ProducerOptions;
  readonly #sender: Sender;
  #partitions: Promise<number> | undefined;

  constructor(options: ProducerOptions) {
    checkNames(options, ...CONNECTION, "timeout");
    this.#options = options;
    this.#sender = new Sender(options, "producer");
  }

  /**
   * Submits a task. When it returns the submission is durable: it becomes a task, a dead letter with the reason, or is a duplicate of one.
   * Throws a TypeError for what no engine accepts.
   */
  async submit(s: Submission): Promise<Receipt> {
    const { id = randomUUID(), workflow, version, input, priority, labels } = s;
    const value = { id, workflow, version, input, priority, labels, deadline: timeText(s.deadline), not_before: timeText(s.notBefore), reply_to: s.replyTo, reply_key: s.replyKey };
    checkNames(s, ...MEMBERS);
    const fault = faultOf(id, s, Buffer.byteLength(encode(value)));
    if (fault !== undefined) throw new TypeError(fault);
    return this.#send(id, "sagalog.submission", randomUUID(), value, s.traceparent);
  }

  /** Ends the wait of a step for a signal, now or later. A signal with an ID that the task has seen changes nothing. */
  async signal(task: string, name: string, payload?: unknown, { id = randomUUID() }: { id?: string } = {}): Promise<Receipt> {
    return this.#request({ id, kind: "signal", task, signal: name, payload });
  }

  /** Asks to undo a task that is not past its pivot. */
  async cancel(task: string, { id = randomUUID(), reason }: { id?: string; reason?: string } = {}): Promise<Receipt> {
    return this.#request({ id, kind: "cancel", task, reason });
  }

  async #request(r: { id: string; kind: "signal" | "cancel"; task: string } & Record<string, unknown>): Promise<Receipt> {
    return { ...(await this.#send(r.task, `sagalog.request.${r.kind}`, r.id, r)), request: r.id };
  }

  /** Writes to the topic of submissions, which is the only one that the role producer may write to. `value.id` is for a repeat. */
  async #send(task: string, type: string, id: string, value: { id: string }, traceparent?: string): Promise<Receipt> {
    // A failure is not remembered: the next record asks again.
    this.#partitions ??= partitionsOf(this.#sender, this.#options).catch((error: unknown) => {
      this.#partitions = undefined;
      throw error;
    });
    const partition = homeOf(task, await this.#partitions);
    const headers = event(type, id, "/sagalog/producer", { ce_traceparent: traceparent });
    const record = { topic: `${namespaceOf(this.#options)}.submissions`, partition, key: task, value: encode(value), headers };
    try {
      const offset = await this.#sender.send(record, Date.now() + (this.#options.timeout ?? 30_000));
      return { id: task, partition, offset };
    } catch (error) {
      if (error instanceof NotSent) error.id = value.id;
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#sender.close();
  }
}
