import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, expect, guardedTest } from "./engine";

guardedTest("what operators did is listed: who, when, to what, with the result", async ({ page, guarded }) => {
  await page.goto(`${guarded.engine.url}/jobs`);
  await guarded.signIn(guarded.viewer);
  await page.getByRole("button", { name: "acts of operators" }).click();
  await expect(page).toHaveURL(/tab=acts/);
  await expect(page.getByRole("table", { name: "acts of operators" })).toContainText("No operator has done anything");

  writeFileSync(join(guarded.dir, "slow.yaml"), "workflow: slow\nsteps:\n  approve: {wait: {signal: go}}\n");
  guarded.sagalog("workflow", "apply", "slow.yaml");
  guarded.sagalog("task", "submit", "-w", "slow", "--id", "o 17", "--input", "{}");
  guarded.sagalog("task", "pause", "o 17", "--reason", "the bank is down");
  expect(() => guarded.sagalog("task", "retry", "o 17")).toThrow();
  guarded.sagalog("agent", "pause", "drone", "--reason", "a storm");

  await page.reload();
  const row = (text: string) => page.getByRole("row").filter({ hasText: text });
  await expect(row("the bank is down")).toContainText("admin");
  await expect(row("the bank is down")).toContainText("pause");
  await expect(row("the bank is down")).toContainText("granted");
  await expect(row("retry")).toContainText("refused");
  await expect(row("a storm")).toContainText("agent drone");
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await accessible(page);
  }
  await row("the bank is down").getByRole("link", { name: "o 17" }).click();
  await expect(page).toHaveURL(/\/tasks\/o%2017$/);
});
