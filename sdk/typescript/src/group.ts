// A member of the consumer group of an agent. The library keeps the membership; what is committed, and whether a partition is still ours, is
// asked here, because the library's own commits carry no metadata.
//
// Reading is not fenced: an instance that was paused keeps reading although others have its partitions by now. So a request starts only after
// the group has confirmed, in answer to a question asked after the request was read, that the partition was still ours. And what lies below the
// end of a partition when it is assigned to us may have been started by another instance (Partition.shared).

import { setTimeout as sleep } from "node:timers/promises";

import { type Connection as BrokerConnection, Consumer, heartbeatV4, offsetCommitV8, offsetFetchV8 } from "@platformatic/kafka";

import { AgentError, messageOf } from "./errors.js";
import { clientOptions, type Connection, guarded, hasError, type Incoming, type Log, Reader } from "./kafka.js";
import { decodeDone, Partition, type Position, type Span } from "./offsets.js";

// Short enough that a dead member is soon replaced; brokers demand 6 s at least.
const SESSION_MS = 10_000;
const HEARTBEAT_MS = 1_000;
const PAUSE_MS = 500;
// Longer than a join takes, for which the broker waits until all members have joined.
const REQUEST_MS = 20_000;
// The group may fence a member that has no namesake, if an earlier join of its own takes effect late. A living namesake fences it again and again.
const FENCED_MOST = 3;
const FENCED_WITHIN_MS = 60_000;

/** One membership: from a join until the group removes the member or the client is replaced. */
interface Membership {
  consumer: Consumer<Buffer, Buffer, Buffer, Buffer>;
  generation: number;
  memberId: string;
}

export interface GroupOptions {
  connection: Connection;
  group: string;
  topic: string;
  instance: string;
  log: Log;
  /** Waits until more requests may be read. */
  room: () => Promise<void>;
  received: (partition: Partition, records: Incoming[]) => void;
}

export class Group {
  readonly #o: GroupOptions;
  readonly #reader: Reader;
  #membership: Membership | undefined;
  #partitions = new Map<number, Partition>();
  #stopped = false;
  /** Changes with each assignment; a reading loop of an earlier one ends. */
  #round = 0;
  /** When the group fenced this instance lately. */
  #fenced: number[] = [];

  constructor(o: GroupOptions) {
    this.#o = o;
    this.#reader = new Reader(o.connection, "agent", o.topic);
  }

  get partitions(): number[] {
    return [...this.#partitions.values()].flatMap((p) => (p.owned ? [p.number] : [])).sort((a, b) => a - b);
  }

  /** Keeps a member in the group until stop. Throws an AgentError if that is impossible. */
  async run(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#member();
      } catch (error) {
        const now = Date.now();
        this.#fenced = this.#fenced.filter((at) => at > now - FENCED_WITHIN_MS);
        if (hasError(error, "apiId", "FENCED_INSTANCE_ID") && this.#fenced.push(now) >= FENCED_MOST) {
          throw new AgentError(`another process uses the instance name ${this.#o.instance}: give each its own`, { cause: error });
        }
        const other = hasError(error, "apiId", "INCONSISTENT_GROUP_PROTOCOL") ? "; stop the instances of this agent that are written in another language" : "";
        if (!this.#stopped) this.#o.log("warn", `this instance is not in the group ${this.#o.group}, and joins again: ${messageOf(error)}${other}`);
      }
      if (!this.#stopped) await sleep(PAUSE_MS);
    }
  }

  /** Joins the group and stays in it until stop, or until a heartbeat fails: then another coordinator is looked for, by a new client. */
  async #member(): Promise<void> {
    const consumer = guarded(
      new Consumer({
        ...clientOptions(this.#o.connection, "agent"), requestTimeout: REQUEST_MS, groupId: this.#o.group, groupInstanceId: this.#o.instance,
        sessionTimeout: SESSION_MS, rebalanceTimeout: SESSION_MS, heartbeatInterval: HEARTBEAT_MS,
      }),
    );
    consumer.topics.track(this.#o.topic);
    const m: Membership = { consumer, generation: -1, memberId: "" };
    try {
      await new Promise<void>((_, reject) => {
        consumer.on("error", reject);
        consumer.on("consumer:heartbeat:error", ({ error }) => reject(error));
        consumer.on("consumer:group:join", ({ generationId, memberId, assignments }) => {
          const numbers = assignments?.find((a) => a.topic === this.#o.topic)?.partitions ?? [];
          this.#assigned(m, generationId ?? 0, memberId, numbers).catch(reject);
        });
        consumer.joinGroup({}).catch(reject);
        this.#wakeStop = () => reject(new Error("stopped"));
        if (this.#stopped) this.#wakeStop();
      });
    } finally {
      this.#round++;
      if (this.#stopped) {
        await this.#left; // what runs is still committed
        this.#round++; // the group may have dealt out partitions again
      } else for (const p of this.#partitions.values()) p.owned = false;
      this.#membership = undefined;
      await Promise.race([consumer.close(true), sleep(2 * PAUSE_MS, undefined, { ref: false })]).catch(() => {});
      consumer.connections.close(() => {});
    }
  }

  #wakeStop: () => void = () => {};
  #leave: () => void = () => {};
  readonly #left = new Promise<void>((resolve) => (this.#leave = resolve));

  /** Reads nothing more. The membership stays until leave, so that running requests can be committed. */
  stop(): void {
    this.#stopped = true;
    this.#round++;
    this.#wakeStop();
  }

  leave(): void {
    this.#leave();
  }

  async close(): Promise<void> {
    await this.#reader.close();
  }

  /** Takes an assignment over. A partition that was ours in the generation before stays as it is, since nobody had it in between. */
  async #assigned(m: Membership, generation: number, memberId: string, numbers: number[]): Promise<void> {
    const round = ++this.#round;
    const stays = this.#membership === m && generation <= m.generation + 1;
    Object.assign(m, { generation, memberId });
    this.#membership = m;
    const before = this.#partitions;
    for (const [n, p] of before) if (!stays || !numbers.includes(n)) p.owned = false;
    const fresh = numbers.filter((n) => before.get(n)?.owned !== true);
    const found = await this.#find(m, fresh, before);
    if (round !== this.#round) {
      for (const p of found.values()) p.owned = false;
      return;
    }
    this.#partitions = new Map(numbers.map((n) => [n, found.get(n) ?? (before.get(n) as Partition)]));
    if (!this.#stopped) void this.#read(round);
  }

  /** Finds what is committed for newly assigned partitions, and where they end. */
  async #find(m: Membership, numbers: number[], before: Map<number, Partition>): Promise<Map<number, Partition>> {
    const out = new Map<number, Partition>();
    if (numbers.length === 0) return out;
    const { generation } = m;
    const topics = [{ name: this.#o.topic, partitionIndexes: numbers }];
    const answer = await offsetFetchV8.api.async(await this.#coordinator(m), [{ groupId: this.#o.group, memberId: null, memberEpoch: -1, topics }], false);
    const committed = new Map(answer.groups.flatMap((g) => g.topics.flatMap((t) => t.partitions.map((p) => [p.partitionIndex, p] as const))));
    const ends = await this.#reader.ends(numbers, "last");
    const unread: Partition[] = [];
    for (const n of numbers) {
      const last = committed.get(n);
      const end = ends.get(n) ?? 0;
      if (last === undefined || last.committedOffset < 0n) {
        // It was never read: the first reader commits before it starts a request, so nothing in it is shared.
        unread.push(new Partition(n, 0, [], 0));
        continue;
      }
      const lost = last.committedOffset > BigInt(end); // the broker lost records, and gives their offsets to new ones
      const next = lost ? end : Number(last.committedOffset);
      const done = lost ? [] : union(decodeDone(next, last.metadata), before.get(n)?.finishedFrom(next) ?? []);
      out.set(n, new Partition(n, next, done, lost ? Number(last.committedOffset) : end));
    }
    for (const p of unread) out.set(p.number, p);
    await this.#store(m, generation, unread.map((p) => [p, { next: 0, metadata: "" }]));
    return out;
  }

  /** Reads the assigned partitions, those of each broker in a loop, until the assignment or a leader changes. */
  async #read(round: number): Promise<void> {
    while (round === this.#round && this.#partitions.size > 0) {
      let failed = false;
      const pump = async (node: number, partitions: Partition[]) => {
        while (round === this.#round && !failed) {
          await this.#o.room();
          if (round !== this.#round) return;
          for (const { cursor: p, records, next } of await this.#reader.fetch(node, partitions)) {
            if (round !== this.#round || failed) return; // what was fetched for an earlier assignment is fetched again
            if (!p.owned) continue;
            this.#o.received(p, records);
            p.fetchAt = next;
          }
        }
      };
      try {
        const leaders = await this.#reader.leaders(this.partitions);
        await Promise.all(
          [...leaders].map(([node, numbers]) =>
            pump(node, numbers.map((n) => this.#partitions.get(n) as Partition)).catch((error: unknown) => {
              failed = true;
              throw error;
            }),
          ),
        );
      } catch (error) {
        failed = true;
        if (round !== this.#round) return;
        this.#o.log("info", `reading ${this.#o.topic} failed, trying again: ${messageOf(error)}`);
        await sleep(PAUSE_MS);
      }
    }
  }

  /** Asks the group whether this instance still has its partitions. Returns those that it had when it was asked. */
  async confirm(): Promise<ReadonlySet<Partition>> {
    const m = this.#membership;
    if (m === undefined) throw new Error("this instance is in no group now");
    const mine = new Set([...this.#partitions.values()].filter((p) => p.owned));
    const { generation, memberId } = m; // those under which the partitions are ours
    await heartbeatV4.api.async(await this.#coordinator(m), this.#o.group, generation, memberId, this.#o.instance);
    return mine;
  }

  /** Commits positions. Returns false if the group did not take them, which happens while it is dealing out partitions. */
  async commit(positions: [Partition, Position][]): Promise<boolean> {
    const m = this.#membership;
    const ours = positions.filter(([p]) => p.owned);
    if (m === undefined || ours.length < positions.length) return false;
    try {
      await this.#store(m, m.generation, ours);
      return true;
    } catch (error) {
      this.#o.log("info", `committing offsets failed, trying again: ${messageOf(error)}`);
      return false;
    }
  }

  /** Commits under the generation in which the partitions were ours: under a later one, the commit would undo what their new reader did. */
  async #store(m: Membership, generation: number, positions: [Partition, Position][]): Promise<void> {
    if (positions.length === 0) return;
    const partitions = positions.map(([p, at]) => ({
      partitionIndex: p.number, committedOffset: BigInt(at.next), committedLeaderEpoch: -1, committedMetadata: at.metadata,
    }));
    const { memberId } = m;
    await offsetCommitV8.api.async(await this.#coordinator(m), this.#o.group, generation, memberId, this.#o.instance, [{ name: this.#o.topic, partitions }]);
    for (const [p, at] of positions) p.acknowledge(at);
  }

  async #coordinator(m: Membership): Promise<BrokerConnection> {
    const id = await m.consumer.findGroupCoordinator();
    const connection = (await m.consumer.connectToBrokers([id])).get(id);
    if (connection === undefined) throw new Error(`the coordinator of ${this.#o.group} cannot be reached`);
    return connection;
  }
}

/** Merges two lists of runs. */
function union(a: readonly Span[], b: readonly Span[]): Span[] {
  const out: [number, number][] = [];
  for (const [first, end] of [...a, ...b].sort((x, y) => x[0] - y[0])) {
    const last = out.at(-1);
    if (last !== undefined && first <= last[1]) last[1] = Math.max(last[1], end);
    else out.push([first, end]);
  }
  return out;
}
