import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "@playwright/test";
import { accessible, Engine, expect } from "./engine";

const program = process.env["SAGALOG"] ?? "";

test("the page asks for a token, shows whose it is, and says what its role may not do", async ({ page }) => {
  const dir = mkdtempSync(join(tmpdir(), "sagalog-access-"));
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
    await page.goto(`${engine.url}/tasks`);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
    await expect(page.getByRole("status")).toContainText("needs a token");
    await accessible(page);
    await signIn("sagalog_wrong");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in"); // again: for a moment the page is there
    await expect(page.getByRole("status")).toContainText("not valid here");

    await signIn(viewer);
    await expect(page.getByText("vera (viewer)")).toBeVisible();
    await expect(page).toHaveURL(/\/tasks$/);
    const row = page.getByRole("row").filter({ hasText: "demo-" }).first();
    await expect(row).toBeVisible();
    const id = /demo-\d+-\d+/.exec((await row.textContent()) ?? "")?.[0] ?? "";
    await page.goto(`${engine.url}/tasks/${id}`);
    const cancel = page.getByRole("toolbar", { name: "verbs" }).getByRole("button", { name: "cancel" });
    await expect(cancel).toHaveAttribute("aria-disabled", "true");
    await expect(cancel).toHaveAttribute("title", "This needs the role operator, and you have the role viewer.");
    await page.keyboard.type("T");
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await accessible(page);

    await page.getByRole("button", { name: "sign out" }).click();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
    await signIn(admin);
    await expect(page.getByText("admin (admin)")).toBeVisible();
    await page.keyboard.type("R");
    await expect(page.getByRole("dialog")).toContainText('-H "Authorization: Bearer $SAGALOG_TOKEN"');
    await expect(page.locator("body")).not.toContainText(admin);
    await page.keyboard.press("Escape");

    await page.route("**/v1/whoami", (route) => route.fulfill({ status: 403, json: { detail: "The token is valid, but none of its groups has a role here." } }));
    await page.reload();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
    await expect(page.getByRole("status")).toContainText("none of its groups has a role here");
    await page.unroute("**/v1/whoami");
    await signIn(admin);
    await expect(page.getByText("admin (admin)")).toBeVisible();

    run("token", "revoke", "admin", "--file", tokens);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in", { timeout: 30_000 });
  } finally {
    await engine.end();
    rmSync(dir, { recursive: true });
  }
});
