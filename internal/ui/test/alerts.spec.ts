import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "@playwright/test";
import { accessible, Engine, expect } from "./engine";

const program = process.env["SAGALOG"] ?? "";

test("an open alert is on the overview, may be acknowledged by an operator, and goes when its cause is gone", async ({ page }) => {
  const dir = mkdtempSync(join(tmpdir(), "sagalog-alerts-"));
  const run = (...args: string[]): string => execFileSync(program, args, { cwd: dir, encoding: "utf8" }).trim();
  run("token", "init", "access");
  const tokens = join(dir, "access", "tokens.json");
  const viewer = run("token", "create", "--file", tokens, "--name", "vera", "--role", "viewer");
  const admin = readFileSync(join(dir, "access", "admin.token"), "utf8").trim();
  const engine = new Engine(dir, ["--tokens", tokens]);
  const signIn = async (token: string) => {
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
  };
  try {
    await engine.start();
    const sagalog = (...args: string[]): string => run(...args, "--api", engine.url, "--token-file", join(dir, "access", "admin.token"));
    writeFileSync(join(dir, "slow.yaml"), "workflow: slow\nsteps:\n  approve: {wait: {signal: go}, remind_after: 1s}\n");
    sagalog("workflow", "apply", "slow.yaml");
    sagalog("task", "submit", "-w", "slow", "--id", "o 17", "--input", "{}");

    await page.goto(engine.url);
    await signIn(viewer);
    const alert = page.getByRole("region", { name: "needs you" }).getByRole("listitem").filter({ hasText: "step approve of task o 17: not over 1s after it began" });
    await expect(alert).toBeVisible();
    const button = alert.getByRole("button", { name: "acknowledge" });
    await expect(button).toHaveAttribute("aria-disabled", "true");
    await expect(button).toHaveAttribute("title", "This needs the role operator, and you have the role viewer.");
    await button.click({ force: true }); // nothing happens
    await expect(button).toBeVisible();
    await accessible(page);
    await page.getByRole("button", { name: "sign out" }).click();

    await signIn(admin);
    await expect(button).not.toHaveAttribute("aria-disabled", "true");
    await button.focus();
    await page.keyboard.press("Enter");
    await expect(alert).toContainText("acknowledged by admin");
    await expect(button).toHaveCount(0);
    expect(sagalog("alert", "list", "--kind", "soft_limit_passed")).toContain("admin");
    await alert.getByRole("link").click();
    await expect(page).toHaveURL(/\/tasks\/o%2017$/);
    sagalog("task", "terminate", "o 17");
    await page.goto(engine.url);
    await expect(page.getByRole("region", { name: "needs you" })).not.toContainText("Reading");
    await expect(alert).toHaveCount(0);
  } finally {
    await engine.end();
    rmSync(dir, { recursive: true });
  }
});
