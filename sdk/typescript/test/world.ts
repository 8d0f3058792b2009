// A real node with its broker, real agents as processes, and a real service, for one test file.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Producer, type Receipt, type Submission } from "../src/index.js";
import { Service } from "./service.js";

const run = promisify(execFile);

/** Where the package is: the tests run from dist-test/test. */
export const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
export const sagalog = process.env["SAGALOG_BIN"] ?? "sagalog";

export interface Fact {
  type: string;
  step?: string;
  attempt?: number;
  data: Record<string, unknown>;
}

/** The end of a process, or undefined while it runs. */
interface Running {
  child: ChildProcess;
  output: string[];
  ended: Promise<number | null>;
}

export function start(command: string, args: string[], env: Record<string, string> = {}, cwd?: string): Running {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"], cwd });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (b: Buffer) => output.push(b.toString()));
  const ended = new Promise<number | null>((resolve) => {
    child.on("close", resolve);
    child.on("error", (error) => {
      output.push(String(error));
      resolve(null);
    });
  });
  return { child, output, ended };
}

/** Waits until a question has an answer. There is no bound: the runner of the tests has one. */
export async function until<T>(ask: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    await sleep(100);
  }
}

export class World {
  readonly dir = mkdtempSync(join(tmpdir(), "sagalog-ts-"));
  readonly service: Service;
  readonly acknowledged: Receipt[] = [];
  readonly #processes: Running[] = [];
  brokers = "";
  api = "";
  serviceUrl = "";
  producer!: Producer;

  constructor() {
    const ledgers = join(this.dir, "ledgers");
    mkdirSync(ledgers);
    this.service = new Service(ledgers);
  }

  /** Starts everything in one process, with the embedded broker. */
  async dev(workflows: Record<string, string>, ...flags: string[]): Promise<void> {
    const data = join(this.dir, "data");
    await this.#node(["dev", "--demo", "none", "--data", data, "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--workflows", this.#files(workflows), ...flags], () => {
      const found = JSON.parse(readFileSync(join(data, "endpoints.json"), "utf8")) as { http: string; kafka: string };
      this.brokers = found.kafka;
      return found.http;
    });
  }

  /** Starts a node on brokers that run already. */
  async serve(brokers: string, workflows: Record<string, string>, ...flags: string[]): Promise<void> {
    const data = join(this.dir, "data");
    this.brokers = brokers;
    await this.#node(["serve", "--brokers", brokers, "--data", data, "--http", "127.0.0.1:0", "--workflows", this.#files(workflows), ...flags], () => {
      return (JSON.parse(readFileSync(join(data, "endpoints.json"), "utf8")) as { http: string }).http;
    });
  }

  async #node(args: string[], api: () => string): Promise<void> {
    this.serviceUrl = await this.service.start();
    const node = this.#start(sagalog, args);
    let over = false;
    void node.ended.then(() => (over = true));
    this.api = await until(async () => {
      if (over) throw new Error(`sagalog ${args.join(" ")} ended:\n${node.output.join("")}`);
      try {
        const url = api();
        return (await fetch(`${url}/readyz`)).ok && url;
      } catch {
        return undefined; // it is not listening yet
      }
    });
    this.producer = new Producer({ brokers: this.brokers });
  }

  #files(workflows: Record<string, string>): string {
    const dir = join(this.dir, "workflows");
    mkdirSync(dir);
    for (const [name, text] of Object.entries(workflows)) writeFileSync(join(dir, `${name}.yaml`), `workflow: ${name}\n${text}`);
    return dir;
  }

  #start(command: string, args: string[], env: Record<string, string> = {}): Running {
    const p = start(command, args, env);
    this.#processes.push(p);
    return p;
  }

  /** Starts an agent as a process: test/program.ts. */
  agent(name: string, env: Record<string, string> = {}): Running {
    return this.#start(process.execPath, [join(root, "dist-test", "test", "program.js")], { BROKERS: this.brokers, AGENT: name, SERVICE: this.serviceUrl, ...env });
  }

  async cli(...args: string[]): Promise<string> {
    const { stdout } = await run(sagalog, args, { env: { ...process.env, SAGALOG_API: this.api }, maxBuffer: 64 << 20 });
    return stdout;
  }

  async submit(s: Submission): Promise<Receipt> {
    const receipt = await this.producer.submit(s);
    this.acknowledged.push(receipt);
    return receipt;
  }

  async history(task: string): Promise<Fact[]> {
    return JSON.parse(await this.cli("task", "history", task, "-o", "json")) as Fact[];
  }

  /** Waits until the history of a task has a fact. It asks the API, since a process for each question would keep the machine busy. */
  async fact(task: string, type: string): Promise<void> {
    await until(async () => {
      const response = await fetch(`${this.api}/v1/tasks/${encodeURIComponent(task)}/history?limit=1000`);
      return response.ok && ((await response.json()) as { events: Fact[] }).events.some((f) => f.type === type);
    });
  }

  /** Lets the engine compare the log with the submissions that were acknowledged and with the calls that the service received. */
  async verify(): Promise<string> {
    const acks = join(this.dir, "acknowledged.ndjson");
    writeFileSync(acks, this.acknowledged.map(({ id, partition, offset }) => `${JSON.stringify({ id, partition, offset: Number(offset) })}\n`).join(""));
    return this.cli("verify", "--brokers", this.brokers, "--acknowledged", acks, "--ledgers", this.service.ledgers, "--at-rest");
  }

  async stop(): Promise<void> {
    await this.producer?.close();
    if (process.env["SAGALOG_TEST_OUTPUT"]) for (const { output } of this.#processes) process.stderr.write(output.join("")); // to find out why a test fails
    for (const { child } of this.#processes) child.kill("SIGTERM");
    await Promise.all(this.#processes.map((p) => Promise.race([p.ended, sleep(20_000, undefined, { ref: false }).then(() => p.child.kill("SIGKILL"))])));
    this.service.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }
}
