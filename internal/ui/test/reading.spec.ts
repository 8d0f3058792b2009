import type { Page } from "@playwright/test";
import { words } from "../src/parts/attempts";
import { accessible, expect, testWith } from "./engine";
import { world } from "./world";

const test = testWith("--demo", "none", "--partitions", "2");
test.describe.configure({ mode: "serial" });

/** Where the header cells and those of a row begin and end, in px. */
const edges = (page: Page, id: string) =>
  page.evaluate((id) => {
    const cells = (row: Element | null | undefined) => [...(row?.querySelectorAll(":scope > span") ?? [])].map((e) => e.getBoundingClientRect()).map((r) => `${Math.round(r.left)}-${Math.round(r.right)}`);
    return { head: cells(document.querySelector(".row.head")), row: cells([...document.querySelectorAll(".body .row")].find((r) => r.textContent?.includes(id))) };
  }, id);

test("the headers stand above their columns, and the reason has the room", async ({ page, engine }) => {
  await world(engine);
  const agents = engine.agents("agents");
  try {
    await engine.cli("task", "submit", "-w", "order", "--id", "o-1", "--input", '{"size":1}', "--label", "tenant=acme");
    await engine.cli("task", "submit", "-w", "order", "--id", "o-2", "--input", '{"size":0}', "--label", "tenant=acme");
    await page.goto(`${engine.url}/tasks`);
    const reason = page.getByRole("row").filter({ hasText: "o-2" }).getByRole("cell").filter({ hasText: "out of boxes" });
    await expect(page.getByRole("row").filter({ hasText: "o-1" })).toContainText("approve: signal, approval");
    for (const width of [1280, 1400, 1900]) {
      await page.setViewportSize({ width, height: 800 });
      await expect(reason).toBeVisible();
      const { head, row } = await edges(page, "o-2");
      expect(row, `at ${width} px`).toEqual(head);
      expect(row).toHaveLength(10);
      const cut = await reason.evaluate((e) => [e, ...e.children].some((c) => c.scrollWidth > c.clientWidth + 1 || c.scrollHeight > c.clientHeight + 1));
      expect(cut, `the reason is cut at ${width} px`).toBe(false);
    }
    await accessible(page);
  } finally {
    await agents.end();
  }
});

test("few attempts are counted, many are a share, and the page says since when the nodes have counted", async ({ page, engine }) => {
  expect(words({ attempts: 1, failed: 1, timedOut: 0 })).toBe("1 of 1 failed");
  expect(words({ attempts: 19, failed: 0, timedOut: 1 })).toBe("1 of 19 failed");
  expect(words({ attempts: 20, failed: 4, timedOut: 1, p95: 2 })).toBe("25 % failed, p95 2 s");
  expect(words({ attempts: 0, failed: 1, timedOut: 0 })).toBe("1 of 1 failed");
  await page.goto(`${engine.url}/workflows/order`);
  const main = page.locator("main");
  await expect(page.getByRole("button", { name: /^pack: 1 of 2 failed, p95/ })).toBeVisible();
  await expect(main).toContainText(/The counts begin at \d\d:\d\d:\d\d, when a node started, and do not cover the whole last hour\./);
  await page.getByRole("combobox", { name: /^over/ }).selectOption("6h");
  await expect(main).toContainText("do not cover the whole last 6 hours.");
  await accessible(page);
  await page.goto(engine.url);
  await expect(main).toContainText(/The counts begin at \d\d:\d\d:\d\d/);
  const label = await page.getByRole("region", { name: "tasks per second" }).getByRole("img").getAttribute("aria-label");
  expect(label).toContain("started");
  await page.route("**/v1/stats?**", async (route) => {
    const answer = (await (await route.fetch()).json()) as object;
    await route.fulfill({ json: { ...answer, since: new Date(Date.now() - 6 * 3_600_000).toISOString() } });
  });
  await page.reload();
  await expect(page.getByRole("region", { name: "tasks per second" })).toContainText("started");
  await expect(main).not.toContainText("The counts begin at");
});

/** How many points of a chart's picture have the colour of its first line, away from the axes. */
const painted = (page: Page) =>
  page.getByRole("region", { name: "duration of tasks" }).locator("canvas").evaluate((e) => {
    const c = e as HTMLCanvasElement;
    const { data } = c.getContext("2d")?.getImageData(0, 0, c.width, c.height) ?? { data: [] };
    let n = 0;
    for (let i = 0; i < data.length; i += 4) if ((data[i + 3] ?? 0) > 200 && (data[i + 2] ?? 0) - (data[i] ?? 0) > 100) n++; // blue
    return n;
  });

test("a chart with values of one minute shows a point, and the overview says who waits for a signal", async ({ page, engine }) => {
  let values = 0;
  await page.route("**/v1/stats?**", async (route) => {
    const answer = (await (await route.fetch()).json()) as { rows: object[] };
    const at = new Date(60_000 * Math.floor(Date.now() / 60_000 - 5)).toISOString();
    await route.fulfill({ json: { ...answer, rows: values === 0 ? [{ ...answer.rows[0], at, workflow: "order", started: 1, p95_s: undefined }] : [{ ...answer.rows[0], at, workflow: "order", started: 1, p95_s: 30 }] } });
  });
  await page.goto(engine.url);
  const chart = page.getByRole("region", { name: "duration of tasks" });
  await expect(chart).toContainText("order");
  await expect.poll(() => painted(page)).toBe(0);
  values = 1;
  await page.reload();
  await expect(chart).toContainText("order");
  await expect.poll(() => painted(page)).toBeGreaterThan(8);

  const needs = page.getByRole("region", { name: "needs you" });
  await expect(needs).toContainText("1 step waits for a signal, which a person or a program has to send.");
  await engine.cli("task", "terminate", "o-2");
  await expect(needs).toContainText("Nothing else needs you.");
  await accessible(page);
  await needs.getByRole("link", { name: "1 step waits for a signal" }).click();
  await expect(page).toHaveURL(/\/tasks\?waiting_for=signal$/);
  await expect(page.getByRole("row").filter({ hasText: "o-1" })).toBeVisible();
});

test("a verb that cannot be used does not have the colour of danger", async ({ page, engine }) => {
  const colour = (name: string) => page.locator("header.title").getByRole("button", { name, exact: true }).evaluate((e) => getComputedStyle(e).color);
  await page.goto(`${engine.url}/tasks/o-2`);
  await expect(page.getByRole("button", { name: "terminate" })).toHaveAttribute("aria-disabled", "true");
  expect(await colour("terminate")).toBe(await colour("cancel"));
  await page.goto(`${engine.url}/tasks/o-1`);
  await expect(page.getByRole("button", { name: "terminate" })).toHaveAttribute("aria-disabled", "false");
  expect(await colour("terminate")).not.toBe(await colour("cancel"));
});

test("the list of documents leads to those of the packages in other languages", async ({ page, engine }) => {
  await page.goto(`${engine.url}/docs/`);
  for (const name of ["Python", "TypeScript"]) {
    await page.getByRole("link", { name, exact: true }).click();
    await expect(page).toHaveURL(new RegExp(`/docs/sdk/${name.toLowerCase()}$`));
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(`Sagalog in ${name}`);
    await page.getByRole("link", { name: "Documents" }).click();
  }
});
