import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, type Page, test as base } from "@playwright/test";
import { AxeBuilder } from "@axe-core/playwright";

const program = process.env["SAGALOG"] ?? "";
const run = promisify(execFile);

/** An engine of `sagalog dev` on a new directory, or a further node on its broker. */
export class Engine {
  private process: ChildProcess | undefined;
  url = "";
  kafka = "";
  constructor(
    readonly dir: string,
    private readonly flags: readonly string[],
    private readonly data = "data",
  ) {}

  async start(addr = "127.0.0.1:0"): Promise<void> {
    const command = this.flags.includes("--brokers") ? ["serve"] : ["dev", "--kafka", "127.0.0.1:0"];
    this.spawn([...command, "--data", this.data, "--http", addr, ...this.flags]);
    await expect(async () => {
      const { http, kafka } = JSON.parse(readFileSync(join(this.dir, this.data, "endpoints.json"), "utf8")) as { http: string; kafka?: string };
      expect((await fetch(`${http}/readyz`)).status).toBe(200);
      this.url = http;
      this.kafka = kafka ?? "";
    }).toPass({ timeout: 300_000 });
  }

  /** Another node on the same broker, which is not started yet. */
  node(name: string): Engine {
    return new Engine(this.dir, ["--brokers", this.kafka, "--node", name], name);
  }

  /** A process that runs the agents of a directory, and nothing else. */
  agents(dir: string): Engine {
    const e = new Engine(this.dir, []);
    e.spawn(["serve", "--roles", "agent", "--brokers", this.kafka, "--agents", dir, "--node", "agents"]);
    return e;
  }

  /** What serves a copy of the past in a directory, at a free port. */
  async past(dir: string): Promise<Engine> {
    const e = new Engine(this.dir, []);
    const probe = createServer().listen(0, "127.0.0.1");
    await once(probe, "listening");
    const { port } = probe.address() as AddressInfo;
    probe.close();
    e.url = `http://127.0.0.1:${port}`;
    e.spawn(["api", "--read-only", "--data", dir, "--http", `127.0.0.1:${port}`]);
    await expect(async () => expect((await fetch(`${e.url}/readyz`)).status).toBe(200)).toPass({ timeout: 120_000 });
    return e;
  }

  /** Runs a command that asks no engine. */
  async local(...args: string[]): Promise<string> {
    return (await run(program, args, { cwd: this.dir })).stdout;
  }

  private spawn(args: readonly string[]): void {
    const started = spawn(program, args, { cwd: this.dir, stdio: ["ignore", "ignore", process.env["PAGE_LOG"] ? "inherit" : "ignore"] });
    this.process = started;
    process.once("exit", () => started.kill("SIGKILL")); // also if the tests are ended
  }

  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const p = this.process;
    if (!p || p.exitCode !== null || p.signalCode !== null) return;
    const over = new Promise((done) => p.once("exit", done));
    p.kill(signal);
    await over;
  }

  /** Runs a command of the command line against the engine. */
  async cli(...args: string[]): Promise<string> {
    return (await run(program, [...args, "--api", this.url], { cwd: this.dir }).catch((e: { stdout: string }) => ({ stdout: e.stdout }))).stdout;
  }
}

/**
 * A test with an engine, which all tests of the file share. It fails if the page says anything to the console or asks another origin.
 * What a test expects the page to say, such as failed calls of a dead node, it names in expected.
 */
export const testWith = (...flags: readonly string[]) =>
  base.extend<{ engine: Engine; expected: RegExp[] }, { running: Engine }>({
    running: [
      async ({}, use) => {
        const dir = mkdtempSync(join(tmpdir(), "sagalog-page-"));
        const engine = new Engine(dir, flags);
        try {
          await engine.start();
          await use(engine);
        } finally {
          await engine.end();
          rmSync(dir, { recursive: true });
        }
      },
      { scope: "worker", timeout: 600_000 },
    ],
    expected: [async ({}, use) => use([]), {}],
    engine: async ({ running, page, expected }, use) => {
      const said = listen(page, () => running.url);
      await use(running);
      expect(said.filter((s) => !expected.some((e) => e.test(s)))).toEqual([]);
    },
  });

/** A test with an engine whose example runs. */
export const test = testWith();

/** An engine that asks for tokens: of an administrator, and of the viewer vera. */
export class Guarded {
  readonly dir = mkdtempSync(join(tmpdir(), "sagalog-guarded-"));
  readonly tokens = join(this.dir, "access", "tokens.json");
  private readonly adminFile = join(this.dir, "access", "admin.token");
  readonly viewer: string;
  readonly admin: string;
  readonly engine: Engine;
  constructor(private readonly page: Page) {
    this.run("token", "init", "access");
    this.viewer = this.run("token", "create", "--file", this.tokens, "--name", "vera", "--role", "viewer");
    this.admin = readFileSync(this.adminFile, "utf8").trim();
    this.engine = new Engine(this.dir, ["--tokens", this.tokens]);
  }

  /** Runs a command that asks no engine. It fails if the command does. */
  run(...args: string[]): string {
    return execFileSync(program, args, { cwd: this.dir, encoding: "utf8" }).trim();
  }

  /** Runs a command against the engine as the administrator. It fails if the command does. */
  sagalog(...args: string[]): string {
    return this.run(...args, "--api", this.engine.url, "--token-file", this.adminFile);
  }

  async signIn(token: string): Promise<void> {
    await this.page.getByLabel("Token").fill(token);
    await this.page.keyboard.press("Enter");
  }
}

/** A test with an engine of its own that asks for tokens. Unlike test, it does not look at what the page says to the console: refusals do. */
export const guardedTest = base.extend<{ guarded: Guarded }>({
  guarded: async ({ page }, use) => {
    const g = new Guarded(page);
    try {
      await g.engine.start();
      await use(g);
    } finally {
      await g.engine.end();
      rmSync(g.dir, { recursive: true });
    }
  },
});

/** Keeps what the page says to the console, and each request beyond its origin. */
export function listen(page: Page, origin: () => string): string[] {
  const said: string[] = [];
  page.on("console", (m) => said.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => said.push(`error: ${e.message}`));
  page.on("request", (r) => {
    if (!r.url().startsWith(origin()) && !r.url().startsWith("blob:")) said.push(`request: ${r.url()}`);
  });
  return said;
}

/** Fails if axe finds anything that keeps people out. */
export async function accessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]).analyze();
  expect(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" | ")}`)).toEqual([]);
}

export { expect };
