import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, expect, guardedTest } from "./engine";

guardedTest("an alert and a task that waits lead to the sections of the documents that say what to do", async ({ page, guarded }) => {
  writeFileSync(join(guarded.dir, "slow.yaml"), "workflow: slow\nsteps:\n  approve: {wait: {signal: go}, remind_after: 1s}\n");
  guarded.sagalog("workflow", "apply", "slow.yaml");
  guarded.sagalog("task", "submit", "-w", "slow", "--id", "o 17", "--input", "{}");

  await page.goto(guarded.engine.url);
  await guarded.signIn(guarded.viewer);
  const alert = page.getByRole("region", { name: "needs you" }).getByRole("listitem").filter({ hasText: "step approve of task o 17" });
  await alert.getByRole("link", { name: "what soft limit passed means" }).click();
  await expect(page).toHaveURL(/\/docs\/alerts#soft_limit_passed$/);
  await expect(page.locator(":target")).toContainText("A step or a task is not over after its remind_after.");
  await expect(page.locator(":target")).toBeInViewport();

  await page.goto(`${guarded.engine.url}/tasks/o%2017`);
  const reason = page.getByRole("status").filter({ hasText: "Step approve is waiting for a signal" });
  await accessible(page);
  await reason.getByRole("link", { name: "what signal means" }).click();
  await expect(page).toHaveURL(/\/docs\/waiting#signal$/);
  await expect(page.locator(":target")).toHaveText("signal");
  await expect(page.locator(":target")).toBeInViewport();
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await accessible(page);
  }

  await page.goto(guarded.engine.url);
  await page.getByRole("link", { name: "Documents" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Documents");
  await page.getByRole("link", { name: "Commands", exact: true }).click();
  await expect(page).toHaveURL(/\/docs\/reference\/cli$/);
  await page.getByRole("link", { name: "Sagalog", exact: true }).click();
  await expect(page.getByRole("navigation", { name: "screens" })).toBeVisible();
});
