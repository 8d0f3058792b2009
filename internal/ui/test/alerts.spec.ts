import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, expect, guardedTest } from "./engine";

guardedTest("an open alert is on the overview, may be acknowledged by an operator, and goes when its cause is gone", async ({ page, guarded }) => {
  writeFileSync(join(guarded.dir, "slow.yaml"), "workflow: slow\nsteps:\n  approve: {wait: {signal: go}, remind_after: 1s}\n");
  guarded.sagalog("workflow", "apply", "slow.yaml");
  guarded.sagalog("task", "submit", "-w", "slow", "--id", "o 17", "--input", "{}");

  await page.goto(guarded.engine.url);
  await guarded.signIn(guarded.viewer);
  const alert = page.getByRole("region", { name: "needs you" }).getByRole("listitem").filter({ hasText: "step approve of task o 17: not over 1s after it began" });
  await expect(alert).toBeVisible();
  const button = alert.getByRole("button", { name: "acknowledge" });
  await expect(button).toHaveAttribute("aria-disabled", "true");
  await expect(button).toHaveAttribute("title", "This needs the role operator, and you have the role viewer.");
  await button.click({ force: true }); // nothing happens
  await expect(button).toBeVisible();
  await accessible(page);
  await page.getByRole("button", { name: "sign out" }).click();

  await guarded.signIn(guarded.admin);
  await expect(button).not.toHaveAttribute("aria-disabled", "true");
  await button.focus();
  await page.keyboard.press("Enter");
  await expect(alert).toContainText("acknowledged by admin");
  await expect(button).toHaveCount(0);
  expect(guarded.sagalog("alert", "list", "--kind", "soft_limit_passed")).toContain("admin");
  await alert.getByRole("link", { name: "task o 17" }).click();
  await expect(page).toHaveURL(/\/tasks\/o%2017$/);
  guarded.sagalog("task", "terminate", "o 17");
  await page.goto(guarded.engine.url);
  await expect(page.getByRole("region", { name: "needs you" })).not.toContainText("Reading");
  await expect(alert).toHaveCount(0);
});
