// The work requests that an instance holds, from their arrival to the commit behind their reports.
//
//	read --> unconfirmed --> ready --> running --> reported --> finished --> committed
//
// A request that is abandoned (at a stop, or because its partition is another instance's) is not committed, so it is delivered again. Nothing is
// reported at or after the complete-by time. Effect none is reported only after a commit has recorded that the request is finished.

import { setTimeout as sleep } from "node:timers/promises";

import { Clock, encode, nameOf, Request, type UndoAttempt, type Work } from "./attempt.js";
import { AttemptStopped, type Effect, Failure, failureOf, type FailureOptions, messageOf, stackOf } from "./errors.js";
import type { Group } from "./group.js";
import { event, type Incoming, type Log, type Sender } from "./kafka.js";
import { hasSealed, type Keys, sealedText } from "./keys.js";
import type { Partition, Position } from "./offsets.js";

export type Operation = (a: UndoAttempt<any, any>) => unknown;

// A third of the group's session: an instance that was silent for longer may have been replaced.
const ANSWER_LASTS_MS = 3_000;
const ANSWER_WAIT_MS = 2_000;
const COMMIT_EVERY_MS = 200;
const LAST_MS = 500; // how long the report of an attempt that a stop broke off waits for its last progress
const READ_AHEAD = 2;
const LATE_EVERY_MS = 10_000; // between two warnings
const OUTPUT_BYTES = 256 << 10;
const DETAIL_BYTES = 16 << 10;
const MESSAGE_CHARACTERS = 1_000;
const RETRY_AFTER_MAX_MS = 24 * 3600e3;
// A part of the remaining time is kept for the report of an attempt.
const reportMargin = (left: number) => Math.min(Math.max(left / 20, 5), 250);

export interface WorkOptions {
  agent: string;
  instance: string;
  reports: string;
  concurrency: number;
  operation: (name: string, verb: "do" | "undo") => Operation | undefined;
  sender: Sender;
  keys: Keys | undefined;
  log: Log;
}

export class Worker {
  readonly #o: WorkOptions;
  readonly #clock = new Clock();
  readonly #held = new Map<string, Request>();
  #unconfirmed: Request[] = [];
  #ready: Request[] = [];
  /** Attempts that were reported without effect, and steps whose undo has come, until their ends. */
  readonly #noEffect = new Map<string, number>();
  readonly #undos = new Map<string, number>();
  readonly #partitions = new Set<Partition>();
  readonly #waiting = new Set<() => void>();
  #committing: Promise<void> = Promise.resolve();
  #warnedLate = 0;
  #stopping = false;
  #killed = false;
  running = 0;

  constructor(o: WorkOptions) {
    this.#o = o;
  }

  /** Waits for anything to change. */
  #change(most: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, most);
      this.#waiting.add(wake);
    });
  }

  #changed(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  async room(): Promise<void> {
    while (!this.#stopping && this.#held.size >= READ_AHEAD * this.#o.concurrency) await this.#change(1_000);
  }

  received(p: Partition, records: Incoming[]): void {
    this.#partitions.add(p);
    for (const r of records) this.#receive(p, r);
    this.#schedule();
    this.#changed();
  }

  #receive(p: Partition, r: Incoming): void {
    const skip = (why: string) => {
      if (why) this.#o.log("warn", `the record at offset ${r.offset} of partition ${p.number} of the agent ${this.#o.agent} ${why}, and is skipped`);
      p.read(r.offset, 0);
      p.finish(r.offset);
    };
    const type = r.headers.get("ce_type");
    let work: Work;
    try {
      work = JSON.parse(r.value ?? "") as Work;
      if (typeof work?.task !== "string") return skip("names no task");
    } catch {
      return skip("is not JSON");
    }
    if (type === "sagalog.work.stop") this.#stopAttempt(work as Work & { reason?: string });
    if (type !== "sagalog.work") return skip("");
    const now = Date.now();
    const by = this.#clock.completeBy(work, r.headers.get("ce_time"), now);
    if (Number.isNaN(by)) return skip("has no complete-by time");
    const q = new Request(work, r.headers.get("ce_traceparent") ?? "", by, [p, r.offset]);
    if (!p.read(r.offset, q.life.cap)) return;
    const twin = this.#held.get(q.attempt);
    if (now >= by) this.#warnLate(work, now);
    if (now >= by || this.#noEffect.has(q.attempt) || this.#tooLate(q)) return p.finish(r.offset);
    if (twin !== undefined) {
      twin.places.push([p, r.offset]); // it is finished with the one that is held
      twin.confirmedAt = 0;
      return;
    }
    if (work.operation === "undo") this.#undos.set(q.step, q.life.cap);
    this.#held.set(q.attempt, q);
    this.#unconfirmed.push(q);
  }

  /** That is normal after an outage. But if the clocks of two machines disagree, no work is ever done, and nothing else would show the reason. */
  #warnLate(w: Work, now: number): void {
    if (now - this.#warnedLate < LATE_EVERY_MS) return;
    this.#warnedLate = now;
    this.#o.log("warn", `a request came after its time, and is dropped (${nameOf(w)}): it waited too long, or this machine's clock differs from its owner's`);
  }

  /** After a take-over an agent may get a do and its undo together. */
  #tooLate(q: Request): boolean {
    return q.work.operation === "do" && this.#undos.has(q.step);
  }

  #stopAttempt(s: Work & { reason?: string }): void {
    const id = JSON.stringify([s.task, s.ticket, s.run, s.step, s.operation, s.attempt]);
    const q = this.#held.get(id);
    if (q === undefined) return;
    q.stopped = new AttemptStopped(`nobody needs the outcome any more: ${s.reason ?? ""}`);
    q.life.stop(q.stopped);
  }

  /** Asks the group about the requests that wait, until stop. */
  async confirmLoop(group: Group): Promise<void> {
    while (!this.#stopping) {
      const now = Date.now();
      for (const q of this.#unconfirmed) if (now >= q.life.end) this.#finish(q);
      const batch = this.#unconfirmed.filter((q) => this.#held.has(q.attempt));
      this.#unconfirmed = [];
      if (batch.length === 0) {
        await this.#change(1_000);
        continue;
      }
      const places = batch.map((q) => q.places.length);
      const mine = await Promise.race([group.confirm().catch(() => undefined), sleep(ANSWER_WAIT_MS, undefined, { ref: false })]);
      if (mine === undefined) {
        this.#unconfirmed.unshift(...batch);
        await sleep(50);
        continue;
      }
      for (const [i, q] of batch.entries()) {
        if (q.places.length !== places[i]) this.#unconfirmed.push(q); // one more has come since the question
        else if (!q.places.some(([p]) => mine.has(p))) this.#abandon(q);
        else {
          q.confirmedAt = now;
          this.#ready.push(q);
        }
      }
      this.#schedule();
    }
  }

  #schedule(): void {
    while (!this.#stopping && this.running < this.#o.concurrency) {
      const q = this.#ready.shift();
      if (q === undefined) return;
      const now = Date.now();
      if (now >= q.life.end || this.#tooLate(q)) this.#finish(q);
      else if (now - q.confirmedAt > ANSWER_LASTS_MS) this.#unconfirmed.push(q);
      else {
        this.running++;
        void this.#attempt(q)
          .catch((error: unknown) => this.#o.log("warn", `an attempt of the step ${q.work.step} ended without a report: ${messageOf(error)}`))
          .finally(() => {
            this.running--;
            this.#schedule();
            this.#changed();
          });
      }
    }
  }

  #finish(q: Request): void {
    q.finishPlaces();
    this.#abandon(q);
  }

  #abandon(q: Request): void {
    this.#held.delete(q.attempt);
    this.#changed();
  }

  /** Makes one attempt and reports it. */
  async #attempt(q: Request): Promise<void> {
    q.shared = !q.exclusive;
    const began = Date.now();
    if (q.stopped === undefined) q.life.begin((json) => this.#sendProgress(q, json));
    let output: unknown;
    let failure: Failure | undefined;
    try {
      output = await this.#call(q);
    } catch (error) {
      failure = failureOf(error);
      if (failure !== error && !q.life.signal.aborted) this.#o.log("warn", `an operation threw an error, so the attempt failed: ${nameOf(q.work)}: ${q.like === undefined ? stackOf(error) : "its text may hold sealed content"}`);
    }
    q.life.finish();
    const ended = Date.now();
    if (ended >= q.life.end) return this.#finish(q); // the engine's timer decides: neither a report nor a recovery follows
    if (failure !== undefined && this.#killed) {
      if (q.life.heartbeat === 0) return this.#abandon(q); // the stop cut it off, so nobody knows how it ended
      // Delivered again, the request would have only its first heartbeat left, or none. So another attempt goes on, and this one does not count.
      failure = new Failure("unavailable", "the agent is stopping", { code: "stopped", effect: failure.effect === "in_doubt" ? "in_doubt" : "done_unknown" });
      await Promise.race([q.life.sendLast().catch(() => {}), sleep(LAST_MS, undefined, { ref: false })]);
    }
    const result =
      failure === undefined
        ? { result: "completed", output, effect: q.exclusive ? undefined : "in_doubt" }
        : { result: "failed", ...(await this.#failed(q, failure)), effect: await this.#proven(q, failure.effect) };
    const report = { ...result, started_at: new Date(began).toISOString(), finished_at: new Date(ended).toISOString() };
    if (Date.now() < q.life.end) {
      // If that fails, the complete-by time passes and the engine makes a new attempt: recovery is its task.
      await this.#send(q, report, q.reportId()).catch((error: unknown) => this.#o.log("warn", `the report of ${nameOf(q.work)} was not delivered: ${messageOf(error)}`));
    }
    this.#finish(q);
  }

  async #call(q: Request): Promise<unknown> {
    const w = q.work;
    const operation = this.#o.operation(w.function ?? "", w.operation);
    if (operation === undefined) {
      throw new Failure("unavailable", `this instance does not offer the operation: ${w.operation} ${w.function ?? ""}`, { code: "no_operation", effect: "none" });
    }
    await this.#open(q);
    if (q.life.signal.aborted) throw new Failure("unavailable", "the attempt did not begin", { code: "not_tried", effect: "none" });
    const output = await operation(q.forOperation());
    if (w.operation === "undo") return undefined;
    let json: string;
    try {
      json = encode(output);
    } catch (error) {
      throw this.#useless(q, `the output cannot be written as JSON: ${messageOf(error)}`, { code: "output_encoding" });
    }
    const limit = q.like === undefined ? OUTPUT_BYTES : (OUTPUT_BYTES / 4) * 3 - 128; // a sealed value takes a third more than its content
    if (Buffer.byteLength(json) > limit) {
      throw this.#useless(q, `the output has ${Buffer.byteLength(json)} bytes, and ${limit} are allowed`, { code: "output_limit", effect: "done_unknown" });
    }
    if (q.like === undefined) return output ?? null;
    return this.#o.keys?.sealLike(q.like, json).catch((error: unknown) => {
      throw this.#useless(q, `the output cannot be sealed: ${messageOf(error)}`, { code: "no_key", effect: "done_unknown" });
    });
  }

  #useless(q: Request, why: string, options: FailureOptions): Failure {
    this.#o.log("warn", `an attempt failed, because ${why}: ${nameOf(q.work)}`);
    return new Failure("permanent", why, options);
  }

  async #open(q: Request): Promise<void> {
    const w = q.work;
    if (![w.input, w.output, w.progress].some(hasSealed)) return;
    const { keys } = this.#o;
    if (keys === undefined) {
      throw new Failure("unavailable", "the input is sealed, and this agent has no key: give it the key file of the nodes (sealKeyFile)", { code: "no_key", effect: "none" });
    }
    try {
      q.like = sealedText(w.input);
      [w.input, w.output, w.progress] = [await keys.open(w.input), await keys.open(w.output), await keys.open(w.progress)];
    } catch (error) {
      if (error instanceof Failure) throw error;
      throw new Failure("unavailable", `the content cannot be opened: ${messageOf(error)}`, { code: "no_key", effect: "none" });
    }
  }

  async #sendProgress(q: Request, json: string): Promise<void> {
    try {
      const progress: unknown = q.like === undefined ? JSON.parse(json) : await this.#o.keys?.sealLike(q.like, json);
      await this.#send(q, { result: "progress", progress }, `${q.reportId()}/${Date.now()}`);
    } catch (error) {
      this.#o.log("warn", `progress of the step ${q.work.step} of the task ${q.work.task} was not delivered: ${messageOf(error)}`);
      throw error;
    }
  }

  async #send(q: Request, report: object, id: string): Promise<void> {
    const { agent, instance, reports, sender } = this.#o;
    const headers = event("sagalog.report", id, `agent/${agent}/${instance}`, { ce_traceparent: q.traceparent });
    const value = JSON.stringify({ ...q.about(), instance, ...report });
    await sender.send({ topic: reports, partition: q.work.home, key: q.work.task, value, headers }, q.life.end);
  }

  async #failed(q: Request, f: Failure): Promise<object> {
    let message = f.message.replace(/\p{Cc}/gu, " ").trim().slice(0, MESSAGE_CHARACTERS) || f.errorClass;
    let detail: unknown;
    try {
      detail = Buffer.byteLength(encode(f.detail)) <= DETAIL_BYTES ? f.detail : undefined;
    } catch {
      this.#o.log("warn", `the detail of a failure of the step ${q.work.step} is not JSON, and is left out`);
    }
    if (q.like !== undefined) {
      detail = await this.#o.keys?.sealLike(q.like, JSON.stringify({ message, detail })).catch(() => undefined);
      message = "the message is sealed, in error.detail";
    }
    const retry = Math.min(Math.max(0, Math.trunc(f.retryAfter)), RETRY_AFTER_MAX_MS);
    const error = { class: f.errorClass, code: f.code || undefined, message, detail };
    return { error, retry_after: retry > 0 ? `${retry}ms` : undefined };
  }

  /** The effect that is safe to report: the run of another instance may have an effect and end later. */
  async #proven(q: Request, effect: Effect): Promise<Effect> {
    if (!q.exclusive) return "in_doubt";
    return effect === "none" && !(await this.#neverAgain(q)) ? "in_doubt" : effect;
  }

  /** Makes sure that the attempt never runs again: a commit says so, and duplicates that come later are dropped. */
  async #neverAgain(q: Request): Promise<boolean> {
    const left = q.life.end - Date.now();
    const until = Date.now() + left - reportMargin(left);
    for (;;) {
      const places = q.places.length;
      q.finishPlaces();
      await Promise.race([this.commit(), sleep(until - Date.now(), undefined, { ref: false })]);
      const covered = q.exclusive && q.places.slice(0, places).every(([p, offset]) => p.covers(offset));
      if (!covered || Date.now() >= until) {
        for (const [p, offset] of q.places) if (!p.covers(offset)) p.reopen(offset, q.life.cap);
        return false;
      }
      if (q.places.length === places) {
        this.#noEffect.set(q.attempt, q.life.cap);
        return true;
      }
    }
  }

  #group: Group | undefined;

  /** Commits at intervals until the signal. */
  async commitLoop(group: Group, until: AbortSignal): Promise<void> {
    this.#group = group;
    while (!until.aborted) {
      await sleep(COMMIT_EVERY_MS, undefined, { signal: until }).catch(() => {});
      const now = Date.now();
      for (const kept of [this.#noEffect, this.#undos]) for (const [id, end] of kept) if (now >= end) kept.delete(id);
      await this.commit();
    }
  }

  /** Commits what is finished now. One commit follows the other. */
  commit(): Promise<void> {
    this.#committing = this.#committing.then(async () => {
      const due: [Partition, Position][] = [];
      for (const p of this.#partitions) {
        const position = p.owned ? p.due(Date.now()) : undefined;
        if (position !== undefined) due.push([p, position]);
        if (!p.owned) this.#partitions.delete(p);
      }
      if (due.length > 0) await this.#group?.commit(due);
    });
    return this.#committing;
  }

  /** Starts nothing more, and waits for what runs. After one grace the signals of the attempts are aborted. Returns how many do not end. */
  async drain(grace: number): Promise<number> {
    this.#stopping = true;
    for (const q of [...this.#unconfirmed, ...this.#ready]) this.#abandon(q);
    for (const last of [false, true]) {
      const until = Date.now() + grace;
      while (this.running > 0 && Date.now() < until) await this.#change(Math.max(1, until - Date.now()));
      if (this.running === 0 || last) break;
      this.#killed = true;
      for (const q of this.#held.values()) q.life.stop(new AttemptStopped("the agent stops"));
    }
    return this.running;
  }
}
