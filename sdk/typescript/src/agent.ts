// An agent: it announces itself, reads work requests, runs operations, and leaves cleanly.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import type { Attempt, UndoAttempt } from "./attempt.js";
import { AgentError, messageOf } from "./errors.js";
import { Group } from "./group.js";
import { checkNames, CONNECTION, type Connection, event, type Log, NAME, NAME_RULE, namespaceOf, partitionsOf, Sender, toStandardError } from "./kafka.js";
import { keyLines, Keys } from "./keys.js";
import { type Operation, Worker } from "./work.js";

export interface AgentOptions extends Connection {
  /**
   * Names this process in reports and in its presence; unique among those that run. With a name that stays the same, the next process takes the
   * partitions over at once, even after a kill. Default: the host name and a random suffix.
   */
  instance?: string;
  /** How many attempts run at once, from 1 to 128. Default 16. */
  concurrency?: number;
  /**
   * How long attempts may go on after a stop before their signals are aborted, and then how long they may take to return, in milliseconds. Default
   * 2 s: most calls end within it, and a process supervisor usually waits for 10 s.
   */
  grace?: number;
  /** The key file of the nodes (--seal-key-file), in a namespace that seals. */
  sealKeyFile?: string;
}

const PRESENCE_MS = 1_000;
const MAX_CONCURRENCY = 128; // more unfinished requests would not fit into the metadata of a commit

export class Agent {
  readonly name: string;
  readonly instance: string;
  readonly #options: AgentOptions;
  readonly #log: Log;
  readonly #operations = new Map<string, { do?: Operation; undo?: Operation }>();
  readonly #stop = new AbortController();
  readonly #started = new Date().toISOString();
  /** Whether the work topic exists. */
  #there = false;

  constructor(name: string, options: AgentOptions) {
    checkNames(options, ...CONNECTION, "instance", "concurrency", "grace", "sealKeyFile");
    const { concurrency = 16, sealKeyFile } = options;
    if (!NAME.test(name)) throw new AgentError(`"${name}" cannot name an agent: ${NAME_RULE}`);
    if (!(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= MAX_CONCURRENCY)) throw new AgentError(`concurrency is ${concurrency}; it must be from 1 to ${MAX_CONCURRENCY}; start more instances for more`);
    if (sealKeyFile !== undefined) keyLines(sealKeyFile); // a file that cannot be used is known at once
    this.name = name;
    this.instance = options.instance ?? `${hostname()}-${randomUUID().slice(0, 8)}`;
    this.#options = options;
    this.#log = options.log ?? toStandardError;
  }

  /** Serves the steps that name no operation. */
  step<In = any, Out = unknown>(run: (a: Attempt<In>) => Promise<Out> | Out, undo?: (a: UndoAttempt<In, Out>) => Promise<void> | void): this {
    return this.operation("", run, undo);
  }

  /**
   * Serves the steps with `operation: NAME`. What `run` returns is the output of the step. `undo` reverses it; it must succeed even if there is
   * nothing to undo, since the outcome of the step may be unknown.
   */
  operation<In = any, Out = unknown>(name: string, run: (a: Attempt<In>) => Promise<Out> | Out, undo?: (a: UndoAttempt<In, Out>) => Promise<void> | void): this {
    if (name === "do" || name === "undo" || (name !== "" && !NAME.test(name))) throw new AgentError(`"${name}" cannot name an operation: ${NAME_RULE}, other than do and undo`);
    if (this.#operations.has(name)) throw new AgentError(`the agent ${this.name} has the operation ${name || "without a name"} already`);
    this.#operations.set(name, { do: run, ...(undo ? { undo } : {}) });
    return this;
  }

  /** Ends run: what runs may end within the grace, and the rest is given back. */
  stop(): void {
    this.#stop.abort();
  }

  /** Works until stop, or until the process gets SIGINT or SIGTERM (a second one ends it at once). Throws an AgentError if it cannot work. */
  async run({ signals = true } = {}): Promise<void> {
    if (this.#operations.size === 0) throw new AgentError(`the agent ${this.name} has no operation: call step or operation before run`);
    const stop = () => this.stop();
    if (signals) for (const s of ["SIGINT", "SIGTERM"] as const) process.once(s, stop);
    const sender = new Sender(this.#options, "agent");
    const keys = this.#options.sealKeyFile === undefined ? undefined : new Keys(this.#options, this.#options.sealKeyFile, this.#log);
    const following = keys?.run();
    try {
      const partitions = await partitionsOf(sender, this.#options);
      await this.#work(sender, keys, partitions);
    } finally {
      if (signals) for (const s of ["SIGINT", "SIGTERM"] as const) process.removeListener(s, stop);
      await keys?.close().catch(() => {});
      await following;
      await sender.close().catch(() => {});
    }
  }

  /** Runs as run does. If the agent cannot work, it says why in one line on standard error, and the process ends with the exit code 1. */
  async runForever(): Promise<void> {
    await this.run().catch((error: unknown) => {
      if (!(error instanceof AgentError)) throw error;
      this.#log("warn", error.message);
      process.exit(1);
    });
  }

  async #work(sender: Sender, keys: Keys | undefined, partitions: number): Promise<void> {
    const { concurrency = 16, grace = 2_000 } = this.#options;
    const [namespace, log] = [namespaceOf(this.#options), this.#log];
    const worker = new Worker({
      agent: this.name, instance: this.instance, reports: `${namespace}.reports`, concurrency, sender, keys, log,
      operation: (name, verb) => this.#operations.get(name)?.[verb],
    });
    const topic = `${namespace}.work.${this.name}`;
    const group = new Group({
      connection: this.#options, group: `${namespace}.agents.${this.name}`, topic, instance: this.instance, log,
      room: () => worker.room(), received: (p, records) => worker.received(p, records),
    });
    const ended = new AbortController();
    const announcing = this.#announce(sender, worker, group, concurrency, ended.signal);
    const committing = worker.commitLoop(group, ended.signal);
    const confirming = worker.confirmLoop(group);
    let fault: unknown;
    const member = this.#whenThere(sender, topic, partitions).then(() => group.run()).catch((error: unknown) => {
      fault = error;
      this.stop();
    });
    if (!this.#stop.signal.aborted) await once(this.#stop.signal, "abort");
    group.stop();
    const stuck = await worker.drain(grace);
    await Promise.race([worker.commit(), sleep(grace, undefined, { ref: false })]);
    group.leave();
    await member;
    ended.abort();
    await Promise.all([committing, confirming, announcing]);
    await group.close().catch(() => {});
    if (fault !== undefined) throw fault;
    if (stuck > 0) throw new AgentError(`${stuck} attempts did not end when their signals were aborted: pass a.signal to what they wait for`);
  }

  /** Waits for the work topic, which a node creates when it hears of an instance that does not say what it reads. */
  async #whenThere(sender: Sender, topic: string, partitions: number): Promise<void> {
    for (let n = 1; !this.#stop.signal.aborted; n++) {
      const found = await sender.partitions(topic).catch(() => 0);
      this.#there = found > 0;
      if (this.#there) return;
      if (n === 30) this.#log("warn", `the topic ${topic} does not exist yet, for which a node of the namespace (${partitions} partitions) must run`);
      await sleep(PRESENCE_MS, undefined, { signal: this.#stop.signal }).catch(() => {});
    }
  }

  /** Sends the presence until the signal, and then a tombstone, so that nobody waits for this instance. */
  async #announce(sender: Sender, worker: Worker, group: Group, concurrency: number, ended: AbortSignal): Promise<void> {
    const at = { topic: `${namespaceOf(this.#options)}.presence`, partition: 0, key: `agent/${this.instance}` };
    const send = async (more: { value?: string; headers?: Record<string, string> }) => {
      await sender.send({ ...at, ...more }, Date.now() + PRESENCE_MS).catch((error: unknown) => this.#log("info", `a presence was not delivered: ${messageOf(error)}`));
    };
    let last = "";
    while (!ended.aborted) {
      const next = Date.now() + PRESENCE_MS;
      last = group.partitions.join() + String(this.#stop.signal.aborted);
      const headers = event("sagalog.presence", `${this.instance}/${Date.now()}`, `sagalog/agent/${this.instance}`, { ce_subject: this.instance });
      await send({ headers, value: JSON.stringify(this.#presence(worker, group, concurrency)) });
      // Owners hear at once of other partitions, and of a stop.
      while (!ended.aborted && Date.now() < next && last === group.partitions.join() + String(this.#stop.signal.aborted)) {
        await sleep(50, undefined, { signal: ended }).catch(() => {});
      }
    }
    await send({});
  }

  /** A stopping instance accepts nothing: it has no capacity and no partitions. */
  #presence(worker: Worker, group: Group, concurrency: number): object {
    const accepts = !this.#stop.signal.aborted;
    const offers = (name: string) => (["do", "undo"] as const).filter((verb) => this.#operations.get(name)?.[verb] !== undefined);
    const named = [...this.#operations.keys()].filter(Boolean);
    return {
      kind: "agent", instance: this.instance, agents: [this.name],
      operations: { [this.name]: offers("") },
      ...(named.length > 0 ? { functions: { [this.name]: Object.fromEntries(named.map((n) => [n, offers(n)])) } } : {}),
      capacity: { [this.name]: accepts ? concurrency : 0 }, in_flight: { [this.name]: worker.running }, health: { [this.name]: "healthy" },
      ...(this.#there ? { partitions: { [this.name]: accepts ? group.partitions : [] } } : {}),
      started_at: this.#started, seen_at: new Date().toISOString(),
    };
  }
}
