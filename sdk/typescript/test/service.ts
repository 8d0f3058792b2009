// A remote service for tests: a real HTTP server that drops duplicates by their key, and keeps a ledger of the calls that it received, in the form
// that `sagalog verify --ledgers` reads.

import { appendFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

export interface Call {
  agent: string;
  identifier: string;
  task: string;
  step: string;
  operation: "do" | "undo";
  outcome: "done" | "repeated" | "refused" | "unknown";
  time: string;
  undoes: string;
  attempt: number;
  body: unknown;
}

/** What the service does with a call: takes effect and answers, refuses, is unwell, takes effect and does not answer, or only hangs. */
export type Deed = "done" | "refuse" | "unwell" | "mute" | "hang";

export class Service {
  readonly calls: Call[] = [];
  readonly #plans = new Map<string, Deed[]>();
  readonly #effects = new Set<string>();
  readonly #waiting = new Set<() => void>();
  readonly #server = createServer((req, res) => void this.#serve(req, res));

  constructor(readonly ledgers: string) {}

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** What the calls to do a step of a task meet, in order; after these, all are done. */
  plan(task: string, step: string, ...deeds: Deed[]): void {
    this.#plans.set(`${task}/${step}`, deeds);
  }

  of(task: string): Call[] {
    return this.calls.filter((c) => c.task === task);
  }

  /** Waits until a task has had so many calls. */
  async received(task: string, calls: number): Promise<Call[]> {
    while (this.of(task).length < calls) await new Promise<void>((resolve) => this.#waiting.add(resolve));
    return this.of(task);
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of req) body += String(chunk);
    const header = (name: string) => String(req.headers[name] ?? "");
    const [, agent = "", step = "", operation = "do"] = (req.url ?? "").split("/");
    const key = header("idempotency-key");
    const task = decodeURIComponent(header("sagalog-task"));
    const deed = (operation === "do" && this.#plans.get(`${task}/${step}`)?.shift()) || "done";
    const takesEffect = deed === "done" || deed === "mute";
    const outcome = takesEffect ? (this.#effects.has(key) ? "repeated" : "done") : deed === "hang" ? "unknown" : "refused";
    if (takesEffect) this.#effects.add(key);
    const call: Call = {
      agent, identifier: key, task, step, operation: operation as Call["operation"], outcome, time: new Date().toISOString(),
      undoes: header("sagalog-undoes"), attempt: Number(header("sagalog-attempt")), body: JSON.parse(body || "null"),
    };
    this.calls.push(call);
    appendFileSync(join(this.ledgers, `${agent}.ndjson`), `${JSON.stringify(call)}\n`);
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
    if (deed === "hang" || deed === "mute") return; // the caller waits in vain
    const status = deed === "refuse" ? 422 : deed === "unwell" ? 503 : 200;
    res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(status === 200 ? { key, step } : { reason: deed }));
  }
}
