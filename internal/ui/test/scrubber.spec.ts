import { accessible, expect, test } from "./engine";

const input = '{"ownerId":"owner-1","packageInfo":{"size":"large","weight":4.4},"pickup":{"region":"north"},"dropoff":{"region":"north"},"confirmationRequired":"none"}';

test("an undone delivery is moved by keys to the moment when a step had failed, and back to now", async ({ page, engine }) => {
  await engine.cli("demo", "break", "drone", "--mode", "refuse", "--for", "60s");
  await engine.cli("task", "submit", "-w", "drone-delivery", "--id", "o-21", "--wait", "--input", input);
  await engine.cli("demo", "fix", "drone");
  await page.goto(`${engine.url}/tasks/o-21`);
  const state = page.locator("header.title .state");
  const dag = page.getByRole("group", { name: "steps" });
  const bar = page.getByRole("group", { name: "the task through time" });
  await expect(state).toHaveText("undone");
  await expect(dag.getByRole("button", { name: "package: undone, undo undone" })).toBeVisible();
  await expect(bar).toContainText(/now, after \d+ facts/);

  // Back over the undo of the other steps to the failure of the drone.
  const drone = dag.getByRole("button", { name: "drone: failed, needs package, transport, changed here" });
  for (let moves = 0; moves < 20 && !(await bar.textContent())?.includes('step "drone" failed'); moves++) await page.keyboard.press("{");
  await expect(drone).toBeVisible();
  await expect(state).toHaveText("undoing");
  await expect(bar).toContainText("past: read only");
  await expect(bar).toContainText('step "drone" failed');
  await expect(dag.getByRole("button", { name: "package: completed" })).toBeVisible();
  await expect(page.getByRole("img", { name: /^undo/ })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "rerun" })).toHaveAttribute("aria-disabled", "true");
  await expect(page.getByRole("button", { name: "rerun" })).toHaveAttribute("title", /the past: read only/);
  await page.keyboard.type("R");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  for (const scheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    await accessible(page);
  }

  // One fact before, its attempt ran. The address is a link to that.
  await page.keyboard.press("[");
  await expect(dag.getByRole("button", { name: "drone: running" })).toBeVisible();
  await expect(state).toHaveText("running");
  const [, position = ""] = /(\d+@\d+)/.exec((await bar.textContent()) ?? "") ?? [];
  await expect(page).toHaveURL((url) => url.searchParams.get("at") === position);
  await page.reload();
  await expect(dag.getByRole("button", { name: "drone: running" })).toBeVisible();
  await expect(bar).toContainText("after fact"); // the facts are read: before that there is nothing to move to
  await page.keyboard.press("]");
  await expect(drone).toBeVisible();

  // The arrow keys move the slider, and the page's keys work while it has the focus, also those that are written with AltGr.
  await bar.getByRole("slider").focus();
  await page.keyboard.press("ArrowLeft");
  await expect(dag.getByRole("button", { name: "drone: running" })).toBeVisible();
  await bar.getByRole("slider").evaluate((e) => e.dispatchEvent(new KeyboardEvent("keydown", { key: "]", ctrlKey: true, altKey: true, modifierAltGraph: true, bubbles: true })));
  await expect(drone).toBeVisible();
  await page.keyboard.press("h");
  await expect(page.locator(".history [aria-current=true]")).toContainText('step "drone" failed');
  await accessible(page);
  await page.keyboard.press("t");

  await page.keyboard.press("n");
  await expect(state).toHaveText("undone");
  await expect(page).not.toHaveURL(/at=/);
  await expect(bar).not.toContainText("past");
  await expect(page.getByRole("button", { name: "rerun" })).toHaveAttribute("aria-disabled", "false");

  // Played, it ends where it ended.
  await bar.getByLabel("speed").selectOption("60");
  await bar.getByRole("button", { name: "play" }).click();
  await expect(bar).toContainText(/after fact (\d+) of \1,/);
  await expect(state).toHaveText("undone");
});

test("a moment before the task says so, and leads back to now", async ({ page, running: engine }) => {
  await engine.cli("task", "submit", "-w", "drone-delivery", "--id", "o-22", "--wait", "--input", input);
  // The browser writes to the console that the answer is 410, so this test does not look at what is there.
  await page.goto(`${engine.url}/tasks/o-22?at=2020-01-01T00:00:00Z`);
  await expect(page.getByRole("alert")).toContainText("The task did not exist then");
  await page.keyboard.press("n");
  await expect(page.locator("header.title .state")).toHaveText("processed");
});
