import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { Engine, expect, listen, testWith } from "./engine";

const program = process.env["SAGALOG"] ?? "";
const test = testWith("--demo", "none", "--partitions", "4");
const file = "workflow: hold\nsteps:\n  approve: {wait: {signal: go}, complete_within: 24h}\n";

/** What a browser tells its console of a node that does not answer. */
const unanswered = /^error: Failed to load resource: (net::ERR_|the server responded with a status of 50\d)/;
const badge = (page: Page) => page.locator("header.top").getByRole("status");

test("the page of a node that was killed says so, keeps what it shows, and recovers; another node took its partitions", async ({ page, running: engine }) => {
  const node = engine.node("n2");
  const said = listen(page, () => node.url);
  writeFileSync(join(engine.dir, "hold.yaml"), file);
  await engine.cli("workflow", "apply", "hold.yaml");
  await engine.cli("task", "submit", "-w", "hold", "--id", "h-1");
  try {
    await node.start();
    const owned = async (): Promise<number[]> => ((await (await fetch(`${engine.url}/v1/partitions`)).json()) as { partition: number; owner?: string }[]).filter((p) => p.owner === "n2").map((p) => p.partition);
    await expect(async () => expect((await owned()).length).toBe(2)).toPass({ timeout: 180_000 });
    const taken = await owned();

    await page.goto(`${node.url}/tasks`);
    const row = page.getByRole("row").filter({ hasText: "h-1" });
    await expect(row).toBeVisible();
    await expect(badge(page)).toHaveText("live");
    await row.getByRole("link").click();
    await expect(page.locator("header.title .state")).toBeVisible();
    await page.keyboard.type("S");
    await page.getByLabel("Name of the signal").fill("what I typed");

    await node.end("SIGKILL");
    await expect(badge(page)).toContainText(/^reconnecting, \d+ s without an answer$/);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("h-1");
    await page.keyboard.press("Enter"); // what is asked meanwhile is refused in words, and may be asked again
    await expect(page.getByRole("dialog").getByRole("alert")).toContainText("The engine cannot be reached.");
    await expect(page.getByRole("button", { name: "signal again" })).toBeEnabled();

    // Meanwhile the other node takes over, and its page says from whom and why.
    await expect(async () => expect(await owned()).toEqual([])).toPass({ timeout: 180_000 });
    const other = await page.context().newPage();
    await other.goto(`${engine.url}/partitions`);
    for (const p of taken) await expect(other.getByRole("row", { name: new RegExp(`\\b${p} dev`) })).toContainText("from n2: its heartbeats ended");
    await other.close();

    await node.start(new URL(node.url).host);
    await expect(badge(page)).toHaveText("live");
    await expect(page.getByLabel("Name of the signal")).toHaveValue("what I typed");
    await expect(page.locator("header.title .state")).toBeVisible();
    expect(said.filter((s) => !unanswered.test(s))).toEqual([]);
  } finally {
    await node.end();
  }
});

test("a token that is taken back while a dialog is open: the page asks again, and nothing typed is lost", async ({ page }) => {
  const dir = mkdtempSync(join(tmpdir(), "sagalog-expired-"));
  const run = (...args: string[]): string => execFileSync(program, args, { cwd: dir, encoding: "utf8" }).trim();
  writeFileSync(join(dir, "hold.yaml"), file);
  run("token", "init", "access");
  const tokens = join(dir, "access", "tokens.json");
  const operator = (name: string): string => run("token", "create", "--file", tokens, "--name", name, "--role", "operator");
  const first = operator("anna");
  const engine = new Engine(dir, ["--demo", "none", "--tokens", tokens]);
  const said = listen(page, () => engine.url);
  const signIn = async (token: string) => {
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
  };
  try {
    await engine.start();
    run("workflow", "apply", "hold.yaml", "--api", engine.url, "--token-file", join("access", "admin.token"));
    run("task", "submit", "-w", "hold", "--id", "h-1", "--api", engine.url, "--token-file", join("access", "admin.token"));
    await page.goto(`${engine.url}/tasks`);
    await signIn(first);
    await page.getByRole("link", { name: "h-1" }).click();
    await expect(page.locator("header.title .state")).toBeVisible();
    await page.keyboard.type("p");
    await page.getByLabel("Reason, for the history").fill("typed before the token ended");

    run("token", "revoke", "anna", "--file", tokens);
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    const second = operator("berta");
    await signIn(second);
    await expect(page.getByText("berta (operator)")).toBeVisible();
    await expect(page.getByLabel("Reason, for the history")).toHaveValue("typed before the token ended");
    await page.getByLabel("Reason, for the history").press("Enter");
    await expect(page.getByRole("dialog").getByText("h-1: granted")).toBeVisible();
    await expect(page.locator("body")).not.toContainText(second);
    expect(said.filter((s) => !/status of 401/.test(s))).toEqual([]);
  } finally {
    await engine.end();
    rmSync(dir, { recursive: true });
  }
});
