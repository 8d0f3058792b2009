import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { accessible, expect, testWith } from "./engine";

const test = testWith("--demo", "none", "--partitions", "4");
const many = 10_000;
/** So many rows are in the document at most, at the height of these tests' window. */
const inDocument = 72;
const rowHeight = 36; // px

const lines = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, i) => `{"id":"t-${String(from + i).padStart(5, "0")}","workflow":"wait","labels":{"half":"${i % 2}"}}\n`).join("");

const frames = 120;

/** What a list did while it scrolled: rows that came into the document, rows whose place or mark changed, and the CPU of scripts in ms a frame. */
interface Scrolled {
  added: number;
  changed: number;
  scripts: number;
}

/** Scrolls the list by so many pixels in each frame. */
async function scroll(page: Page, by: number): Promise<Scrolled> {
  const chromium = await page.context().newCDPSession(page);
  await chromium.send("Performance.enable", { timeDomain: "threadTicks" });
  const scripts = async (): Promise<number> => (await chromium.send("Performance.getMetrics")).metrics.find((m) => m.name === "ScriptDuration")?.value ?? NaN;
  const before = await scripts();
  const rows = await page.getByRole("rowgroup", { name: "rows of tasks" }).evaluate(
    async (e, [frames, by]) => {
      const all: MutationRecord[] = [];
      const watch = new MutationObserver((some) => all.push(...some));
      watch.observe(e, { childList: true, attributes: true, subtree: true });
      for (let i = 0; i < frames; i++) {
        await new Promise(requestAnimationFrame);
        e.scrollTop += by;
      }
      await new Promise(requestAnimationFrame);
      all.push(...watch.takeRecords());
      watch.disconnect();
      const isRow = (n: Node): boolean => n instanceof Element && n.getAttribute("role") === "row";
      return {
        added: all.flatMap((m) => [...m.addedNodes]).filter(isRow).length,
        changed: all.filter((m) => m.type === "attributes" && isRow(m.target)).length,
      };
    },
    [frames, by] as const,
  );
  return { ...rows, scripts: (1000 * ((await scripts()) - before)) / frames };
}

test("10,000 tasks load page by page, with few rows in the document, by keys, and new ones wait behind a button", async ({ page, engine }) => {
  writeFileSync(join(engine.dir, "wait.yaml"), "workflow: wait\nsteps:\n  approve: {wait: {signal: go}, complete_within: 24h}\n");
  await engine.cli("workflow", "apply", "wait.yaml");
  writeFileSync(join(engine.dir, "all.ndjson"), lines(0, many));
  await engine.cli("task", "submit", "--from", "all.ndjson");

  await page.goto(`${engine.url}/tasks?workflow=wait`);
  const table = page.getByRole("table", { name: "tasks" });
  await expect(page.getByRole("button", { name: /^All/ })).toContainText("10,000");
  await expect(table).toHaveAttribute("aria-rowcount", String(many + 1));
  await page.keyboard.type("jjx");
  await expect(page.getByRole("toolbar", { name: "verbs for 1 selected tasks" })).toBeVisible();
  const chosen = page.getByRole("row", { selected: true });
  const second = (await chosen.getByRole("link").textContent()) ?? "";
  await expect(chosen).toHaveAttribute("aria-rowindex", "3");

  // To the end, as the wheel would: each time to what is there, until all of it is.
  const rows = page.getByRole("rowgroup", { name: "rows of tasks" });
  let most = 0;
  await expect(async () => {
    await rows.evaluate((e) => (e.scrollTop = e.scrollHeight));
    most = Math.max(most, await page.getByRole("row").count());
    await expect(page.getByText(`${many.toLocaleString("en")} tasks`, { exact: true })).toBeVisible({ timeout: 50 });
  }).toPass({ intervals: [50] });
  expect(most).toBeLessThanOrEqual(inDocument);
  await rows.evaluate((e) => (e.scrollTop = e.scrollHeight));
  await expect(page.locator(`[aria-rowindex="${many + 1}"]`)).toBeVisible();

  // A jump to the middle shows the rows there, and each is there once.
  await rows.evaluate((e) => (e.scrollTop = e.scrollHeight / 2));
  await expect(page.locator(`[aria-rowindex="${many / 2}"]`)).toBeVisible();
  const ids = await page.getByRole("row").getByRole("link").allTextContents();
  expect(new Set(ids).size).toBe(ids.length);
  expect(await page.getByRole("row").count()).toBeLessThanOrEqual(inDocument);
  await accessible(page);

  // Scrolling costs only the rows that come into view, each once: the work of a frame does not grow with the list.
  const cost = await scroll(page, -100);
  console.log(`scrolling by 100 px: ${cost.scripts.toFixed(2)} ms of scripts and ${(cost.added / frames).toFixed(1)} rows a frame`);
  expect(cost.added).toBeGreaterThan(0);
  expect(cost.added).toBeLessThanOrEqual((frames * 100) / rowHeight + inDocument);
  expect(cost.changed).toBe(0);

  // What comes meanwhile moves nothing.
  const before = await rows.evaluate((e) => e.scrollTop);
  const shown = await page.getByRole("row").getByRole("link").allTextContents();
  writeFileSync(join(engine.dir, "more.ndjson"), lines(many, many + 12));
  await engine.cli("task", "submit", "--from", "more.ndjson");
  await expect(page.getByRole("button", { name: "12 new" })).toBeVisible();
  await accessible(page);
  expect(await rows.evaluate((e) => e.scrollTop)).toBe(before);
  expect(await page.getByRole("row").getByRole("link").allTextContents()).toEqual(shown);
  await page.keyboard.type("n");
  await expect(page.getByRole("button", { name: "12 new" })).toHaveCount(0);
  await expect(page.locator('[aria-rowindex="2"]')).toContainText(/t-100(0|1)\d/);
  await expect(page.locator('[aria-rowindex="14"]')).toBeVisible();
  await expect(chosen).toContainText(second); // it is selected still, 12 rows further down
  await expect(chosen).toHaveAttribute("aria-rowindex", "15");
  await page.keyboard.type("jk");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(/t-100(0|1)\d/);
});
