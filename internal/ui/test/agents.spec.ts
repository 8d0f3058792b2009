import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, expect, testWith } from "./engine";
import { world } from "./world";

const test = testWith("--demo", "none", "--partitions", "2");

test("an agent says who needs it, how its attempts went, and who waits for it", async ({ page, engine }) => {
  await world(engine);
  writeFileSync(join(engine.dir, "take.yaml"), "workflow: take\nsteps:\n  take: {agent: nobody, with: {agent: pack}, undo: {agent: pack}, complete_within: 1h}\n");
  for (const name of ["lost.yaml", "take.yaml"]) await engine.cli("workflow", "apply", name);
  const agents = engine.agents("agents");
  try {
    for (const [id, size] of [["a-1", 0], ["a-2", 1]] as const) await engine.cli("task", "submit", "-w", "ship", "--id", id, "--input", `{"size":${size}}`);
    for (const id of ["l-1", "l-2"]) await engine.cli("task", "submit", "-w", "lost", "--id", id);
    await page.goto(`${engine.url}/agents`);
    const row = (name: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
    await expect(row("pack")).toContainText("1 of 2 failed, p95");
    await expect(row("pack")).toContainText("order, ship, take");
    await expect(row("nobody")).toContainText("needed, but no instance offers: do");
    await expect(row("nobody")).toContainText("lost, take");
    await accessible(page);

    await page.getByRole("link", { name: "nobody", exact: true }).click();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("nobody");
    const waiting = page.getByRole("region", { name: "tasks that wait for it" });
    await expect(waiting.getByRole("listitem")).toHaveCount(2);
    await expect(waiting).toContainText("Step find is waiting for an instance of its agent");
    const steps = page.getByRole("region", { name: "steps that need it" });
    await expect(steps.getByRole("row", { name: /^lost find no attempt/ })).toBeVisible();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await accessible(page);
    }
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await accessible(page);
    await steps.getByRole("link", { name: "live of lost" }).click();
    await expect(page).toHaveURL(/\/tasks\?workflow=lost&state=pending%2Cprocessing%2Cundoing$/);
    await expect(page.getByRole("row")).toHaveCount(3);

    // The list by what tasks wait for, which only a list knows: it has no counts, and no job for all of them.
    await page.keyboard.type("/");
    await page.keyboard.type("agent:nobody waits:agent");
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(/\/tasks\?agent=nobody&waiting_for=agent$/);
    await expect(page.getByRole("row")).toHaveCount(3);
    await expect(page.getByRole("button", { name: /^All/ })).toHaveText("All");
    await expect(page.getByRole("button", { name: "act on all that match" })).toHaveCount(0);
    await page.goto(`${engine.url}/tasks?waiting_for=signal`);
    await expect(page.getByText("No task matches.")).toBeVisible();
    await expect(page.getByRole("button", { name: "Without waiting_for:signal there are" })).toBeVisible();

    await page.goto(`${engine.url}/agents/pack`);
    await expect(steps.getByRole("row", { name: /^take take \(undo\)/ })).toBeVisible();
    await expect(waiting).toContainText("None.");
    await page.getByRole("button", { name: "pause agent pack" }).click();
    await page.getByRole("dialog").getByLabel("Reason, for the record").fill("the boxes are wet");
    await page.keyboard.press("Enter");
    await expect(page.getByRole("dialog").getByRole("status")).toContainText("done");
    await page.keyboard.press("Escape");
    await expect(page.locator("header.title")).toContainText("paused: the boxes are wet");
    await engine.cli("task", "submit", "-w", "ship", "--id", "a-3", "--input", '{"size":3}');
    await expect(waiting.getByRole("listitem")).toHaveText(/^a-3/);
  } finally {
    await agents.end();
  }
});
