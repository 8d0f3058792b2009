import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, expect, testWith } from "./engine";

const test = testWith("--demo", "none", "--partitions", "2");

test("a copy of the past says what it is, shows what was, and offers no act", async ({ page, engine }) => {
  writeFileSync(join(engine.dir, "w.yaml"), "workflow: w\nsteps:\n  first: {wait: {signal: go}}\n  then: {needs: [first], sleep: 1ms}\n");
  await engine.cli("workflow", "apply", "w.yaml");
  await engine.cli("task", "submit", "-w", "w", "--id", "t-1");
  await expect(async () => expect(await engine.cli("task", "get", "t-1")).toContain("processing")).toPass();
  const { events } = JSON.parse(await engine.cli("task", "history", "t-1", "-o", "json").then((text) => `{"events":${text}}`)) as { events: { partition: number; offset: number; time: string }[] };
  const last = events[events.length - 1]!;
  await engine.cli("task", "signal", "t-1", "go");
  expect(await engine.cli("task", "get", "t-1", "--wait")).toContain("processed");

  await engine.local("replay", "--brokers", engine.kafka, "--at", `${last.partition}@${last.offset}`, "--to", "past");
  const past = await engine.past("past");
  try {
    // The page of the engine itself says nothing of the past.
    await page.goto(engine.url);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.getByRole("note")).toHaveCount(0);
  } finally {
    // The fixture allows one origin, so the past is opened in another page.
    const other = await page.context().newPage();
    await other.goto(`${past.url}/tasks/t-1`);
    await expect(other.getByRole("note")).toContainText("This is the past, as of ");
    await expect(other.locator("header.title .state")).toHaveText("running");
    const cancel = other.getByRole("button", { name: /^cancel/ }).first();
    await expect(cancel).toHaveAttribute("aria-disabled", "true");
    await expect(cancel).toHaveAttribute("title", "This is a copy of the past: it can only be read.");
    await accessible(other);
    await other.goto(`${past.url}/`);
    await expect(other.getByRole("note")).toContainText("It can only be read");
    await other.close();
    await past.end();
  }
});
