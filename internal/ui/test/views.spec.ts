import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { saw } from "../src/parts/quiet";
import { accessible, Engine, expect, testWith } from "./engine";
import { world } from "./world";

const test = testWith("--demo", "none", "--partitions", "2");
const program = process.env["SAGALOG"] ?? "";

const both = async (page: Page) => {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await accessible(page);
  }
};

test("saved views, columns of labels, where tasks come from, and since when they are parked", async ({ page, engine }) => {
  await world(engine);
  const agents = engine.agents("agents");
  try {
    const submit = (id: string, size: number, ...flags: string[]) => engine.cli("task", "submit", "-w", "order", "--id", id, "--input", `{"size":${size}}`, ...flags);
    await page.goto(engine.url);
    const needs = page.getByRole("region", { name: "needs you" });
    await expect(needs).toContainText(/Nothing needs you\.\s*For .+, since \d\d:\d\d:\d\d, when this page began to look\./);

    await submit("o-1", 1, "--label", "tenant=acme", "--label", "region=north");
    await submit("o-2", 0, "--label", "tenant=zeta");
    await page.goto(`${engine.url}/tasks?workflow=order`);
    const row = (id: string) => page.getByRole("row").filter({ hasText: id });
    await expect(row("o-1")).toContainText("approve: signal, approval");
    await expect(row("o-2")).toContainText(/parked since \d\d:\d\d/);
    await expect(row("o-2")).toContainText("out of boxes");
    await expect(row("o-1")).toContainText("region:north tenant:acme");

    await page.setViewportSize({ width: 360, height: 640 });
    const reason = row("o-2").getByRole("cell").filter({ hasText: "out of boxes" });
    await expect(reason).toBeVisible(); // below the ID, and not cut off
    const [link, below, body] = await Promise.all([row("o-2").getByRole("link").first().boundingBox(), reason.boundingBox(), page.getByRole("rowgroup").boundingBox()]);
    if (!link || !below || !body) throw new Error("a part of the row is not shown");
    expect(below.y).toBeGreaterThanOrEqual(link.y + link.height - 2);
    expect(below.x + below.width).toBeLessThanOrEqual(body.x + body.width);
    await both(page);
    await page.setViewportSize({ width: 1280, height: 800 });

    await page.getByText("columns", { exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("checkbox", { name: "tenant" }).press("Space");
    await expect(page).toHaveURL(/workflow=order&column=tenant$/);
    await page.getByLabel("Another label").fill("colour");
    await page.keyboard.press("Enter");
    await expect(page.getByRole("columnheader", { name: "colour" })).toBeVisible();
    await both(page);
    await page.getByRole("checkbox", { name: "colour" }).press("Space");
    await expect(page.getByRole("columnheader", { name: "colour" })).toHaveCount(0);
    await expect(page.getByRole("columnheader", { name: "tenant" })).toBeVisible();
    await expect(row("o-1")).not.toContainText("tenant:acme");

    await page.getByRole("button", { name: "save this view …" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").getByLabel("Name").fill("orders by tenant");
    await both(page);
    await page.keyboard.press("Enter");
    const views = page.getByRole("navigation", { name: "saved views" });
    await expect(views.getByRole("link", { name: "orders by tenant" })).toHaveAttribute("aria-current", "page");
    await expect(views.getByRole("button", { name: "save this view …" })).toHaveCount(0);
    await row("o-1").getByRole("link", { name: "acme" }).click();
    await expect(page).toHaveURL(/label=tenant%3Aacme&column=tenant$/);
    await expect(row("o-2")).toHaveCount(0);
    await page.goto(`${engine.url}/tasks`);
    await views.getByRole("link", { name: "orders by tenant" }).click();
    await expect(page).toHaveURL(/column=tenant&workflow=order$/);
    await both(page);
    await views.getByRole("button", { name: "remove the view orders by tenant" }).click();
    await expect(views.getByRole("link")).toHaveCount(0);

    await page.goto(`${engine.url}/tasks/o-2`);
    await expect(page.locator("main")).toContainText(/ran for.*parked since\d\d:\d\d:\d\d/);
    await page.getByRole("link", { name: /^submissions [01]@\d+$/ }).click();
    await expect(page).toHaveURL(/tab=history$/);
    await expect(page.getByRole("button", { name: /^copy the kcat line of sagalog\.submissions [01]@\d+/ })).toBeVisible();
    const facts = page.getByRole("listitem").filter({ has: page.getByRole("button") });
    await expect(facts).toHaveCount(4);
    await page.getByRole("combobox", { name: "Step" }).selectOption("pack");
    await expect(facts).toHaveCount(3);
    await expect(page).toHaveURL(/step=pack/);
    await facts.first().getByRole("button").click();
    await expect(page.getByRole("button", { name: /^copy the kcat line of sagalog\.events [01]@\d+/ })).toBeVisible();
    await both(page);
    const file = page.waitForEvent("download");
    await page.getByRole("button", { name: "download as JSON" }).click();
    const saved = await file;
    expect(saved.suggestedFilename()).toBe("o-2-history.json");
    const read = JSON.parse(readFileSync(await saved.path(), "utf8")) as { type: string }[];
    expect(read.map((e) => e.type)).toEqual(["StepStarted", "StepFailed", "TaskParked"]);

    // A change of the owner shows, also if the fact before it is not of the step.
    await page.route("**/history?**", async (route) => {
      const list = (await (await route.fetch()).json()) as { events: { owner: string }[] };
      await route.fulfill({ json: { events: list.events.map((e, i) => (i > 0 ? { ...e, owner: "n2" } : e)) } });
    });
    await page.goto(`${engine.url}/tasks/o-2?tab=history&step=pack`);
    await expect(facts.first()).toContainText(/^partition [01] went from dev to n2/);
    await expect(page.getByText("went from")).toHaveCount(1);

    // What needs somebody is settled while the overview looks on.
    await page.goto(engine.url);
    await expect(needs).toContainText("1 task of order parked");
    await engine.cli("task", "terminate", "o-2");
    await expect(needs).toContainText(/For .+, since \d\d:\d\d:\d\d, when the last thing that did was settled\./);
    await both(page);
  } finally {
    await agents.end();
  }
});

test("the overview says nothing about times that it has not seen", () => {
  const first = saw(null, { nothing: true, read: 1000, needed: undefined });
  expect(first).toEqual({ since: 1000, settled: false, last: 1000 });
  expect(saw(first, { nothing: true, read: 60_000, needed: undefined })).toEqual({ since: 1000, settled: false, last: 60_000 });
  expect(saw(first, { nothing: true, read: 200_000, needed: undefined })).toEqual({ since: 200_000, settled: false, last: 200_000 });
  expect(saw(first, { nothing: false, read: 2000, needed: undefined })).toBeNull();
  expect(saw(null, { nothing: true, read: 3000, needed: 2000 })).toEqual({ since: 3000, settled: true, last: 3000 });
  expect(saw(null, { nothing: true, read: 300_000, needed: 2000 })).toEqual({ since: 300_000, settled: false, last: 300_000 });
});

test("payloads are hidden from a viewer until the tab is asked to show them", async ({ page }) => {
  const dir = mkdtempSync(join(tmpdir(), "sagalog-payloads-"));
  const run = (...args: string[]): string => execFileSync(program, args, { cwd: dir, encoding: "utf8" }).trim();
  run("token", "init", "access");
  const tokens = join(dir, "access", "tokens.json");
  const admin = readFileSync(join(dir, "access", "admin.token"), "utf8").trim();
  const viewers = ["vera", "otto"].map((name) => run("token", "create", "--file", tokens, "--name", name, "--role", "viewer"));
  const engine = new Engine(dir, ["--tokens", tokens, "--demo", "none"]);
  try {
    await engine.start();
    writeFileSync(join(dir, "wait.yaml"), "workflow: wait\nsteps:\n  approve: {wait: {signal: go}}\n");
    const sagalog = (...args: string[]): string => run(...args, "--api", engine.url, "--token-file", join(dir, "access", "admin.token"));
    sagalog("workflow", "apply", "wait.yaml");
    sagalog("task", "submit", "-w", "wait", "--id", "w-1", "--input", '{"name":"Anna Gruber"}');
    const signIn = async (token: string) => {
      await page.getByLabel("Token").fill(token);
      await page.keyboard.press("Enter");
    };
    const main = page.locator("main");
    const show = page.getByRole("button", { name: "show the input of the task" });
    await page.goto(`${engine.url}/tasks/w-1?tab=data`);
    await signIn(viewers[0] ?? "");
    await expect(show).toBeVisible();
    await expect(main).toContainText("Hidden, not secret: the API gives it to you.");
    await expect(main).not.toContainText("Gruber");
    await both(page);
    await page.keyboard.type("w");
    await expect(page.getByRole("button", { name: "show the task as the API shows it" })).toBeVisible();
    await expect(main).not.toContainText("Gruber");
    await page.keyboard.type("i");
    await show.focus();
    await page.keyboard.press("Enter");
    await expect(main).toContainText("Anna Gruber");
    await page.reload();
    await expect(main).toContainText("Anna Gruber");
    await page.getByRole("button", { name: "sign out" }).click();

    await signIn(viewers[1] ?? "");
    await expect(show).toBeVisible(); // the first one's wish was not this one's
    await expect(main).not.toContainText("Gruber");
    await page.getByRole("button", { name: "sign out" }).click();
    await signIn(admin);
    await expect(main).toContainText("Anna Gruber");
  } finally {
    await engine.end();
    rmSync(dir, { recursive: true });
  }
});

test("the overview reads what sagalog bench pages reads for it", async ({ page, engine }) => {
  const reads = JSON.parse(readFileSync("../bench/overview.json", "utf8")) as { path: string }[];
  const asked: string[] = [];
  page.on("request", (r) => {
    const { pathname, search } = new URL(r.url());
    if (pathname.startsWith("/v1/") && pathname !== "/v1/stream") asked.push(decodeURIComponent(pathname + search));
  });
  await page.goto(engine.url);
  const distinct = (list: string[]): string[] => [...new Set(list)].sort();
  await expect.poll(() => distinct(asked)).toEqual(distinct(reads.map((r) => decodeURIComponent(r.path))));
});
