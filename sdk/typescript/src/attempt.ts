// One attempt: the work request on the wire, its time, and what the operation sees of it.

import { createHash } from "node:crypto";
import { setImmediate as macrotask } from "node:timers/promises";

import { AttemptStopped, DeadlinePassed } from "./errors.js";
import type { Partition } from "./offsets.js";

/** The value of a work request: events/FORMAT.md, "Work request". */
export interface Work {
  task: string;
  run: number;
  workflow: string;
  version: number;
  step: string;
  function?: string;
  operation: "do" | "undo";
  attempt: number;
  idempotency_key: string;
  undoes?: string;
  complete_by: string;
  complete_within?: string;
  heartbeat?: string;
  cap_by?: string;
  progress?: unknown;
  input?: unknown;
  output?: unknown;
  home: number;
  ticket: string;
}

/** The attempt, for people. */
export const nameOf = (w: Work) => `attempt ${w.attempt} of the step ${w.step} of the task ${w.task}`;

/** What an operation gets. */
export interface Attempt<In = unknown> {
  readonly task: string;
  readonly run: number;
  readonly workflow: string;
  readonly version: number;
  readonly step: string;
  /** The number of the attempt, from 1. */
  readonly number: number;
  readonly input: In;
  /** The idempotency key: the same in all attempts of this operation of this step. Pass it to the service, so that it drops duplicates. */
  readonly key: string;
  /** When the signal is aborted. If the step has a heartbeat this is the end in any case: without progress it comes sooner. */
  readonly deadline: Date;
  /** Aborted at the end of the attempt, when the agent stops, and when nobody needs the outcome any more. Pass it to fetch and the like. */
  readonly signal: AbortSignal;
  /** The last progress of the earlier attempts of the step; undefined if they showed none. */
  readonly lastProgress: unknown;
  /** Another instance may have received the same request. An undo may then find nothing left to undo. */
  readonly repeated: boolean;
  /** The W3C trace context to pass on; empty if the task has none. */
  readonly traceparent: string;
  /**
   * Shows that the attempt goes on, and how far it has come. A step with a heartbeat ends one heartbeat after its last acknowledged progress. Call
   * it as often as you like: of the calls within a third of the heartbeat only the last one is sent. The value may have up to 16 KiB of JSON.
   * Throws the reason of the signal when the attempt is over, and a TypeError if the value is not JSON, or is longer.
   */
  progress(value: unknown): Promise<void>;
}

/** What an undo gets. */
export interface UndoAttempt<In = unknown, Out = unknown> extends Attempt<In> {
  /** The output of the step; undefined if its outcome is unknown: it may have happened, may not have, or may still happen. */
  readonly output: Out | undefined;
  /** The key of what is undone. Pass it on too, so that the service can refuse the do if it arrives after its undo. */
  readonly undoes: string;
}

/** The JSON of a value. Throws a TypeError for what JSON cannot hold, instead of changing it; a member that is undefined is left out. */
export function encode(value: unknown): string {
  const json: string | undefined = JSON.stringify(value ?? null, function (this: unknown, key: string, v: unknown) {
    const kind = Object.prototype.toString.call(v).slice("[object ".length, -1);
    const held = kind === "Number" ? Number.isFinite(v) : kind === "Undefined" ? !Array.isArray(this) : ["Object", "Array", "String", "Boolean", "Null", "BigInt"].includes(kind);
    if (!held) throw new TypeError(`JSON cannot hold ${kind === "Number" ? String(v) : kind}${key && `, the value of ${key}`}`);
    return v;
  });
  return json ?? "null"; // a toJSON may return undefined
}

const UNIT_MS: Record<string, number> = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, m: 60e3, h: 3600e3 };

/** The milliseconds of a duration such as 1h30m; 0 for none. */
export function durationMs(text: string | undefined): number {
  return [...(text ?? "").matchAll(/([\d.]+)(ns|us|ms|s|m|h)/g)].reduce((sum, [, n, unit]) => sum + Number(n) * (UNIT_MS[unit ?? ""] ?? 0), 0);
}

const TIMER_MS = 2 ** 31 - 1; // the longest time that a timer of Node takes
const PROGRESS_BYTES = 16 << 10;
const PROGRESS_SHARE = 3; // progress goes at most once in this part of the heartbeat; less often, and one lost answer would end the attempt

/** The time of an attempt. It ends at its complete-by time, or, with a heartbeat, one heartbeat after its last acknowledged progress. */
export class Lifetime {
  readonly heartbeat: number;
  readonly cap: number;
  end: number;
  readonly #controller = new AbortController();
  readonly signal = this.#controller.signal;
  #send: ((json: string) => Promise<void>) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #later: NodeJS.Timeout | undefined;
  #waiting: string | undefined;
  #sending = false;
  #sentAt = 0;
  #over = false;

  /** `by` is the complete-by time by this machine's clock. */
  constructor(w: Work, by: number) {
    this.heartbeat = durationMs(w.heartbeat);
    this.cap = w.cap_by ? by + Date.parse(w.cap_by) - Date.parse(w.complete_by) : by;
    this.end = by;
  }

  /** `send` sends progress, and returns when Kafka has acknowledged it. */
  begin(send: (json: string) => Promise<void>): void {
    this.#send = send;
    this.#arm();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const left = this.end - Date.now();
    if (left <= 0) return this.stop(new DeadlinePassed("the attempt's time is over"));
    this.#timer = setTimeout(() => this.#arm(), Math.min(left, TIMER_MS));
  }

  /** Ends the attempt. */
  stop(reason: Error): void {
    this.finish();
    this.#controller.abort(reason);
  }

  /** Sends no more progress: the function has returned. */
  finish(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#later);
  }

  async show(value: unknown): Promise<void> {
    this.signal.throwIfAborted();
    const json = encode(value);
    if (Buffer.byteLength(json) > PROGRESS_BYTES) throw new TypeError(`progress has ${Buffer.byteLength(json)} bytes; ${PROGRESS_BYTES} are allowed`);
    if (this.heartbeat > 0 && !this.#over) {
      this.#waiting = json;
      this.#sendSoon();
    }
    await macrotask(); // timers and answers get their turn even if the operation awaits nothing else
  }

  /** Sends the last progress if it was not sent, after a stop. */
  async sendLast(): Promise<void> {
    if (this.#waiting !== undefined) await this.#send?.(this.#waiting);
  }

  #sendSoon(): void {
    if (this.#over || this.#sending || this.#waiting === undefined || this.#send === undefined) return;
    const wait = this.#sentAt + this.heartbeat / PROGRESS_SHARE - Date.now();
    clearTimeout(this.#later);
    if (wait > 0) return void (this.#later = setTimeout(() => this.#sendSoon(), wait));
    const json = this.#waiting;
    const before = (this.#sentAt = Date.now());
    this.#waiting = undefined;
    this.#sending = true;
    this.#send(json).then(
      () => this.#answered(before, undefined),
      () => this.#answered(undefined, json),
    );
  }

  /** An acknowledgement that comes after the end is too late: the engine may have ended the attempt. */
  #answered(before: number | undefined, again: string | undefined): void {
    this.#sending = false;
    if (this.#over || Date.now() >= this.end) return;
    if (before !== undefined) {
      this.end = Math.min(Math.max(this.end, before + this.heartbeat), this.cap);
      this.#arm();
    }
    this.#waiting ??= again;
    this.#sendSoon();
  }
}

/** A work request that this instance holds. */
export class Request {
  readonly life: Lifetime;
  /** Two requests with the same attempt are duplicates. */
  readonly attempt: string;
  /** A step in one run. It is never done again after its undo. */
  readonly step: string;
  /** Where the request is. There are several places if it was sent more than once. */
  readonly places: [Partition, number][];
  /** When the question was asked whose answer confirmed that the places are ours; 0 before that. */
  confirmedAt = 0;
  /** Whether another instance may have received it too. */
  shared = false;
  /** The sealed input: what the attempt gives is sealed like it. */
  like: string | undefined;
  stopped: AttemptStopped | undefined;

  constructor(
    readonly work: Work,
    readonly traceparent: string,
    by: number,
    place: [Partition, number],
  ) {
    const { task, ticket, run, step, operation, attempt } = work;
    this.life = new Lifetime(work, by);
    this.attempt = JSON.stringify([task, ticket, run, step, operation, attempt]);
    this.step = JSON.stringify([task, ticket, run, step]);
    this.places = [place];
  }

  /** Whether no other instance has read the request, or will before it is committed. */
  get exclusive(): boolean {
    return this.places.every(([p, offset]) => p.owned && offset >= p.shared);
  }

  finishPlaces(): void {
    for (const [p, offset] of this.places) p.finish(offset);
  }

  /** What all reports about the attempt say. */
  about(): Pick<Work, "task" | "run" | "step" | "operation" | "attempt" | "ticket"> {
    const { task, run, step, operation, attempt, ticket } = this.work;
    return { task, run, step, operation, attempt, ticket };
  }

  /** The ID of its report, the same whenever the report is sent again. */
  reportId(): string {
    return createHash("sha256").update(this.attempt).digest("hex").slice(0, 16);
  }

  forOperation(): UndoAttempt {
    const w = this.work;
    const { life } = this;
    return {
      task: w.task, run: w.run, workflow: w.workflow, version: w.version, step: w.step, number: w.attempt,
      input: w.input, output: w.output ?? undefined, key: w.idempotency_key, undoes: w.undoes ?? "",
      deadline: new Date(life.cap), signal: life.signal, lastProgress: w.progress, repeated: this.shared, traceparent: this.traceparent,
      progress: (value) => life.show(value),
    };
  }
}

const DOUBTED_MS = 3600e3;
const KEPT_MS = 60e3;
const SHRINKS = 0.75;

/**
 * Finds out how far this machine's clock is behind the owners'. A request cannot have been read before it was decided, so if it seems that way,
 * this clock is behind, and every complete-by time of that owner comes sooner. A difference of an hour is rather one of the owner's log.
 *
 * A difference shrinks by three quarters of a second in each second: if the log of an owner is ahead, its time goes at half speed until the owner's
 * clock has caught up. If the old difference counted in full, all requests of that owner would soon seem late.
 */
export class Clock {
  readonly #homes = new Map<number, { behind: number; at: number }>();

  completeBy(w: Work, decided: string | undefined, now: number): number {
    const seen = Math.max(0, Date.parse(decided ?? "") - now || 0);
    const last = this.#homes.get(w.home);
    const age = last === undefined ? KEPT_MS : Math.max(0, now - last.at);
    const left = last !== undefined && age < KEPT_MS ? last.behind - age * SHRINKS : 0;
    if (left <= seen) this.#homes.set(w.home, { behind: seen, at: now });
    const behind = Math.max(left, seen);
    const by = Date.parse(w.complete_by) - (behind < DOUBTED_MS ? behind : 0);
    const within = durationMs(w.complete_within);
    return within > 0 ? Math.min(by, now + within) : by;
  }
}
