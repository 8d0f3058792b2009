import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "./engine";

/** Where the pictures of the README are written; unset: they are not, so that a run of the tests changes no file of the repository. */
const into = process.env["PAGE_PICTURES"] ?? "";
const input = '{"ownerId":"owner-1","packageInfo":{"size":"large","weight":4.4},"pickup":{"region":"north"},"dropoff":{"region":"north"},"confirmationRequired":"none"}';

test("the pictures of the README", async ({ page, engine }) => {
  test.skip(into === "", "PAGE_PICTURES names no directory");
  test.setTimeout(900_000);
  mkdirSync(into, { recursive: true });
  const take = async (name: string, colorScheme: "light" | "dark" = "light") => {
    await page.emulateMedia({ colorScheme });
    await expect(page.locator("main")).not.toContainText("Reading");
    await expect(page.locator("header.top").getByRole("status")).toHaveText("live");
    await page.screenshot({ path: join(into, `${name}.png`) });
  };
  await engine.cli("demo", "break", "drone", "--mode", "refuse", "--for", "60s");
  await engine.cli("task", "submit", "-w", "drone-delivery", "--id", "o-17", "--wait", "--label", "tenant=acme", "--input", input);
  await engine.cli("demo", "fix", "drone");
  await engine.cli("demo", "break", "delivery", "--mode", "refuse", "--for", "300s");
  for (let i = 18; i < 30; i++) await engine.cli("task", "submit", "-w", "drone-delivery", "--id", `o-${i}`, "--label", "tenant=acme", "--input", input);
  await engine.cli("task", "submit", "-w", "drone-delivery", "--id", "o-30", "--wait", "--input", input);
  await engine.cli("demo", "fix", "delivery");

  await page.goto(engine.url);
  await expect(page.getByRole("link", { name: /tasks with http_422/ })).toBeVisible();
  // The charts are by the minute, and a picture of one minute says nothing.
  await expect.poll(() => page.getByRole("region", { name: "tasks per second" }).locator("tbody tr").count(), { timeout: 400_000 }).toBeGreaterThan(3);
  await take("overview");
  await take("overview-dark", "dark");
  await page.keyboard.type("gt");
  await expect(page.getByRole("row", { name: /o-17/ })).toBeVisible();
  await page.setViewportSize({ width: 1600, height: 800 }); // so that the reasons can be read
  await take("tasks");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${engine.url}/tasks/o-17?step=drone`);
  await expect(page.getByRole("img", { name: /undo, attempt 1: completed/ })).toBeVisible();
  await take("task");
  await take("task-dark", "dark");
  await page.goto(`${engine.url}/tasks/o-17?tab=history`);
  await expect(page.getByRole("list").filter({ hasText: 'step "drone" failed' })).toBeVisible();
  await take("history");
  for (const [keys, name] of [["ga", "agents"], ["gp", "partitions"]] as const) {
    await page.keyboard.type(keys);
    await expect(page.getByRole("row").nth(1)).toBeVisible();
    await take(name);
  }
  await page.goto(`${engine.url}/workflows/drone-delivery`);
  await expect(page.getByRole("group", { name: "steps" })).toBeVisible();
  await take("workflow");
});
