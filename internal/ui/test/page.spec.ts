import { readFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";
import { accessible, expect, test } from "./engine";

const input = '{"ownerId":"owner-1","packageInfo":{"size":"large","weight":4.4},"pickup":{"region":"north"},"dropoff":{"region":"north"},"confirmationRequired":"none"}';

test("every screen can be reached by keys, in both themes, and axe finds nothing", async ({ page, engine }) => {
  test.slow(); // axe looks at 18 screens, which takes minutes on a busy machine
  await page.goto(engine.url);
  for (const scheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const [keys, title] of [
      ["go", "Overview"],
      ["gt", "Tasks"],
      ["ga", "Agents"],
      ["gp", "Partitions"],
      ["gd", "Dead letters"],
      ["gw", "Workflows"],
      ["gs", "Schedules"],
      ["gl", "Limits"],
      ["gj", "Jobs"],
    ] as const) {
      await page.keyboard.type(keys);
      await expect(page.getByRole("heading", { level: 1 })).toHaveText(title);
      await expect(page.locator("main")).not.toContainText("Reading");
      await accessible(page);
    }
  }
  await page.keyboard.type("?");
  await expect(page.getByRole("dialog")).toContainText("Workflows");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
});

test("a delivery that a broken service undoes is found, understood and run again, by keys alone", async ({ page, engine }) => {
  await engine.cli("demo", "break", "drone", "--mode", "refuse", "--for", "60s");
  await engine.cli("task", "submit", "-w", "drone-delivery", "--id", "o-17", "--wait", "--input", input);
  await engine.cli("demo", "fix", "drone");

  await page.goto(engine.url);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Overview");
  await page.keyboard.type("/");
  await page.keyboard.type("o-17");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("o-17");
  await expect(page.getByRole("status").filter({ hasText: "no retry can help" })).toContainText("a fault makes the drone service refuse");
  const dag = page.getByRole("group", { name: "steps" });
  await expect(dag.getByRole("button", { name: "package: undone, undo undone" })).toBeVisible();
  await dag.getByRole("button", { name: "drone: failed" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("region", { name: "step drone" })).toContainText("http_422");
  await expect(page).toHaveURL(/step=drone/);
  await expect(page.getByRole("img", { name: /undo, attempt 1: completed/ })).toBeVisible();
  await accessible(page);

  await page.keyboard.type("h");
  await expect(page.getByRole("list").filter({ hasText: 'step "drone" failed' })).toContainText("422");
  await page.keyboard.type("t");
  await page.keyboard.type("R");
  await expect(page.getByRole("dialog")).toContainText("sagalog task rerun o-17");
  await accessible(page);
  await page.getByLabel("Reason, for the history").fill("the drone is repaired");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog").getByRole("status")).toContainText("o-17: granted");
  await page.keyboard.press("Escape");
  await expect(page.locator("header.title .state")).toHaveText("processed");
  await expect(page.locator("header.title")).toContainText("run 2");
});

test("a refused verb says why, and the list filters by the search box and opens by keys", async ({ page, engine }) => {
  await engine.cli("task", "submit", "-w", "drone-delivery", "--id", "o-18", "--label", "tenant=acme", "--wait", "--input", input);
  await page.goto(`${engine.url}/tasks`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Tasks");
  await page.keyboard.type("/");
  await page.keyboard.type("tenant:acme state:processed");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/label=tenant%3Aacme/);
  await expect(page.getByRole("row", { name: /o-18/ })).toBeVisible();
  await expect(page.getByRole("row")).toHaveCount(2);
  await page.keyboard.press("Escape");
  await page.keyboard.type("j");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("o-18");
  await expect(page.getByRole("button", { name: "cancel" })).toHaveAttribute("aria-disabled", "true");
  await expect(page.getByRole("button", { name: "cancel" })).toHaveAttribute("title", "The task has ended.");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Tasks");
});

test("an address that leads nowhere, a task that nobody knows, a narrow window", async ({ page, engine }) => {
  await page.goto(`${engine.url}/nothing`);
  await expect(page.getByText("There is nothing at this address")).toBeVisible();
  await page.setViewportSize({ width: 360, height: 640 });
  for (const path of ["", "tasks", "agents", "workflows/drone-delivery"]) {
    await page.goto(`${engine.url}/${path}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  }
});

test("the types are those of the API", async ({ engine }) => {
  const now = astToString(await openapiTS(new URL(`${engine.url}/openapi.yaml`)));
  const kept = readFileSync("src/api/schema.d.ts", "utf8");
  expect(kept.slice(kept.indexOf("export interface paths")), "npm run types, with sagalog dev running, writes them").toBe(now.slice(now.indexOf("export interface paths")));
});

test("all tasks that match are counted first, and then run again by a job; the example is broken from the overview", async ({ page, engine }) => {
  await page.goto(engine.url);
  const example = page.getByRole("region", { name: "the example" });
  await example.getByLabel("service").selectOption("package");
  await example.getByRole("button", { name: "refuse" }).click();
  await expect(example.getByRole("status")).toContainText("the package service will refuse");
  await engine.cli("task", "submit", "-w", "drone-delivery", "--id", "o-19", "--label", "batch=7", "--wait", "--input", input);
  await example.getByRole("button", { name: "fix all" }).click();
  await expect(example.getByRole("status")).toContainText("All services work again");
  await page.goto(`${engine.url}/tasks?label=batch:7&state=undone`);
  await page.getByRole("button", { name: "act on all that match" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("What").selectOption("rerun");
  await expect(dialog).toContainText("sagalog task rerun --state undone --label batch=7");
  await dialog.getByRole("button", { name: "show which tasks" }).click();
  await expect(dialog.getByRole("status")).toContainText("1 task matches: 1 undone");
  await dialog.getByRole("button", { name: "rerun 1 task" }).click();
  await expect(dialog.getByRole("status")).toContainText("The job has started");
  await accessible(page);
  await dialog.getByRole("link", { name: "Jobs" }).click();
  await expect(page.getByRole("row").filter({ hasText: "rerun" })).toContainText("1 of 1");
  await page.goto(`${engine.url}/tasks/o-19`);
  await expect(page.locator("header.title .state")).toHaveText("processed");
});

test("tasks that are parked for one reason are one group, and one job retries them, by keys alone", async ({ page, engine }) => {
  await engine.cli("demo", "break", "delivery", "--mode", "refuse", "--for", "300s");
  for (const id of ["p-1", "p-2", "p-3"]) await engine.cli("task", "submit", "-w", "drone-delivery", "--id", id, "--wait", "--input", input);
  await engine.cli("demo", "fix", "delivery");
  await page.goto(engine.url);
  const needs = page.getByRole("region", { name: "needs you" });
  await expect(needs.getByRole("link", { name: /^\d+ tasks of drone-delivery parked$/ })).toBeVisible(); // those of the example, too
  await expect(needs.getByRole("link", { name: /^\d+ tasks with http_422$/ })).toBeVisible();
  await accessible(page);
  await needs.getByRole("button", { name: /^retry \d+ tasks of drone-delivery with http_422$/ }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("sagalog task retry --state error --workflow drone-delivery --error-code http_422");
  await dialog.getByLabel("Reason, for the history").fill("the service is repaired");
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("status")).toContainText(/\d+ tasks match: \d+ parked/);
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("status")).toContainText("The job has started");
  await page.keyboard.press("Escape");
  await expect(needs).toContainText("Nothing needs you.");
  await page.goto(`${engine.url}/tasks/p-2`);
  await expect(page.locator("header.title .state")).toHaveText("processed");
});
