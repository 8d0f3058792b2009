import { accessible, expect, guardedTest } from "./engine";

guardedTest("the page asks for a token, shows whose it is, and says what its role may not do", async ({ page, guarded }) => {
  await page.goto(`${guarded.engine.url}/tasks`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
  await expect(page.getByRole("status")).toContainText("needs a token");
  const label = page.locator("label", { hasText: "Token" });
  const [text, field] = await label.evaluate((e) => {
    const range = document.createRange();
    range.selectNode(e.childNodes[0] as Node);
    return [range.getBoundingClientRect().bottom, e.querySelector("input")?.getBoundingClientRect().top ?? 0];
  });
  expect(field, "nothing covers the label, not even the mark of the focus").toBeGreaterThanOrEqual((text ?? 0) + 3);
  await accessible(page);
  await guarded.signIn("sagalog_wrong");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in"); // again: for a moment the page is there
  await expect(page.getByRole("status")).toContainText("not valid here");

  await guarded.signIn(guarded.viewer);
  await expect(page.getByText("vera (viewer)")).toBeVisible();
  await expect(page).toHaveURL(/\/tasks$/);
  const row = page.getByRole("row").filter({ hasText: "demo-" }).first();
  await expect(row).toBeVisible();
  const id = /demo-\d+-\d+/.exec((await row.textContent()) ?? "")?.[0] ?? "";
  await page.goto(`${guarded.engine.url}/tasks/${id}`);
  const cancel = page.getByRole("toolbar", { name: "verbs" }).getByRole("button", { name: "cancel" });
  await expect(cancel).toHaveAttribute("aria-disabled", "true");
  await expect(cancel).toHaveAttribute("title", "This needs the role operator, and you have the role viewer.");
  await page.keyboard.type("T");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await accessible(page);

  await page.getByRole("button", { name: "sign out" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
  await guarded.signIn(guarded.admin);
  await expect(page.getByText("admin (admin)")).toBeVisible();
  await page.keyboard.type("R");
  await expect(page.getByRole("dialog")).toContainText('-H "Authorization: Bearer $SAGALOG_TOKEN"');
  await expect(page.locator("body")).not.toContainText(guarded.admin);
  await page.keyboard.press("Escape");

  await page.route("**/v1/whoami", (route) => route.fulfill({ status: 403, json: { detail: "The token is valid, but none of its groups has a role here." } }));
  await page.reload();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
  await expect(page.getByRole("status")).toContainText("none of its groups has a role here");
  await page.unroute("**/v1/whoami");
  await guarded.signIn(guarded.admin);
  await expect(page.getByText("admin (admin)")).toBeVisible();

  guarded.run("token", "revoke", "admin", "--file", guarded.tokens);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in", { timeout: 30_000 });
});
