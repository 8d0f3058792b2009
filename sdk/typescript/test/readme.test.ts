// Every block of README.md is executed, in the order of the page, in a fresh folder with the packed package and a copy of this one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";

import { Producer } from "../src/index.js";
import { root, sagalog, start, until } from "./world.js";

const dir = mkdtempSync(join(tmpdir(), "sagalog-readme-"));
const processes: ReturnType<typeof start>[] = [];

after(async () => {
  for (const { child } of processes.reverse()) {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGTERM"); // the shell and what it runs
  }
  await Promise.all(processes.map((p) => p.ended));
  rmSync(dir, { recursive: true, force: true });
});

/** Stands for the clone's `go run`, with free ports, and for a Node that runs what was compiled. */
const prelude = `set -euo pipefail
unset NODE_TEST_CONTEXT # a runner of tests within one runs nothing
go() { shift 2; if [[ "$1" == dev ]]; then set -- "$@" --http 127.0.0.1:0 --kafka 127.0.0.1:0 --data ${join(dir, "data")}; fi; "${sagalog}" "$@"; }
node() { command node "\${@/%.ts/.js}"; }
`;

interface Block {
  language: string;
  text: string;
}

const blocks: Block[] = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language = "", text = ""]) => ({ language, text }));

/** Writes the blocks that are files: the first line of each has its name. */
function writeFiles(): void {
  for (const { language, text } of blocks.filter((b) => b.language !== "sh")) {
    const [, name] = /^(?:\/\/|#) (\S+)\n/.exec(text) ?? [];
    assert.ok(name, `a ${language} block without a name: ${text}`);
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
}

test("every block of README.md works", async () => {
  // The clone of the page: what is in the package's folder, without what was built and installed.
  const skipped = new Set(["node_modules", "dist", "dist-test"].map((name) => join(root, name)));
  cpSync(root, join(dir, "sagalog", "sdk", "typescript"), { recursive: true, filter: (from) => !skipped.has(from) });
  writeFileSync(join(dir, "package.json"), '{"private": true}');
  writeFiles();
  const env: Record<string, string> = {};
  const shell = blocks.filter((b) => b.language === "sh");
  assert.equal(shell.length, 6);
  for (const { text } of shell) {
    if (text.includes("until Ctrl-C")) {
      processes.push(start("setsid", ["bash", "-c", prelude + text], { ...env }, dir));
      if (text.includes("sagalog dev")) {
        const endpoints = await until(() => {
          try {
            return JSON.parse(readFileSync(join(dir, "data", "endpoints.json"), "utf8")) as { kafka: string; http: string };
          } catch {
            return undefined; // it is not written yet
          }
        });
        await until(async () => (await fetch(`${endpoints.http}/readyz`).catch(() => undefined))?.ok);
        Object.assign(env, { BROKERS: endpoints.kafka, SAGALOG_API: endpoints.http });
      }
      continue;
    }
    const output = execFileSync("bash", ["-c", prelude + text], { cwd: dir, env: { ...process.env, ...env }, encoding: "utf8" });
    if (text.includes("npx tsc")) check();
    if (text.includes("--test")) assert.match(output, /pass 2$/m);
    if (text.includes("submit.ts")) {
      assert.match(output, /^order-1 is durable at \d+\/\d+$/m);
      assert.match(output, /the task is processed/);
    }
  }
  processes.push(start("setsid", ["bash", "-c", `${prelude}exec node train.js`], env, dir));
  const producer = new Producer({ brokers: env["BROKERS"] ?? "" });
  await producer.submit({ id: "training-1", workflow: "training", input: { epochs: 3 } });
  await producer.close();
  const watched = execFileSync(sagalog, ["task", "watch", "training-1"], { env: { ...process.env, ...env }, encoding: "utf8" });
  assert.match(watched, /the task is processed/);
});

/** Checks the types of the blocks against those of the package, as strictly as TypeScript can. */
function check(): void {
  const strict = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--module", "nodenext", "--target", "es2023"];
  const types = ["--typeRoots", join(root, "node_modules", "@types"), "--types", "node", "--skipLibCheck"];
  const files = blocks.filter((b) => b.language === "ts").map((b) => /^\/\/ (\S+)/.exec(b.text)?.[1] ?? "");
  execFileSync(process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), ...strict, ...types, ...files], { cwd: dir, stdio: "inherit" });
}
