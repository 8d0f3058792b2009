import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, expect, testWith } from "./engine";
import { world } from "./world";

const test = testWith("--demo", "none", "--partitions", "2");
test.describe.configure({ mode: "serial" });

test("a schedule shows its next due times, and what became of the last ones", async ({ page, engine }) => {
  await world(engine);
  const agents = engine.agents("agents");
  try {
    writeFileSync(join(engine.dir, "odd.yaml"), 'schedule: odd\nworkflow: order\ncron: "0 3 * * *"\ntime_zone: Europe/Vienna\noverlap: allow\ncatch_up: 1h\njitter: 5m\ninput: {size: 0}\n');
    for (const name of ["nightly.yaml", "odd.yaml"]) await engine.cli("schedule", "apply", name);
    const day = (back: number) => `${new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 10)}T00:00:00Z`;
    await page.goto(`${engine.url}/schedules`);
    await page.getByRole("link", { name: "nightly" }).click();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("nightly");
    await expect(page.getByRole("region", { name: "last results" })).toContainText("No due time has led to a task yet.");
    await expect(page.getByRole("region", { name: "next due times" }).getByRole("listitem")).toHaveCount(5);
    await expect(page.getByRole("region", { name: "what became of due times" })).toContainText("skip: the due time is passed over");

    for (const back of [3, 2, 1]) await engine.cli("schedule", "backfill", "nightly", "--since", day(back), "--until", day(back - 1));
    const strip = page.getByRole("region", { name: "last results" });
    await expect(strip).toContainText("3 processed. The latest is last.");
    await expect(strip.getByRole("link", { name: /^due .*: processed$/ })).toHaveCount(3);

    await engine.cli("schedule", "backfill", "odd", "--since", day(2), "--until", day(0));
    await page.goto(`${engine.url}/schedules/odd`);
    await expect(strip).toContainText("2 parked");
    await expect(strip.getByRole("link", { name: /: parked: / }).first()).toHaveText("!");
    const counts = page.getByRole("region", { name: "what became of due times" });
    await expect(counts).toContainText("allow: both run");
    await expect(counts).toContainText("missed (older than 1h)");
    await expect(counts.getByRole("link", { name: /^odd/ })).toHaveCount(2);
    await expect(page.getByRole("region", { name: "next due times" })).toContainText("Each task is submitted up to 5m late.");
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await accessible(page);
    }
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await accessible(page);

    await page.getByRole("button", { name: "pause schedule odd" }).click();
    await page.getByRole("dialog").getByLabel("Reason, for the record").fill("the holidays");
    await page.keyboard.press("Enter");
    await expect(page.getByRole("dialog").getByRole("status")).toContainText("granted");
    await page.keyboard.press("Escape");
    await expect(page.locator("main")).toContainText("the holidays. No due time leads to a task.");
    await expect(page.getByRole("region", { name: "next due times" })).toContainText("None while it is paused.");
  } finally {
    await agents.end();
  }
});

test("a schedule that does not exist says so", async ({ page, engine, expected }) => {
  expected.push(/status of 404/);
  await page.goto(`${engine.url}/schedules/no-such`);
  await expect(page.getByRole("alert").first()).toContainText("There is no schedule");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Schedules");
});
