import { execFile } from "node:child_process";
import type { Page } from "@playwright/test";
import { accessible, type Engine, expect, testWith } from "./engine";
import { world } from "./world";

const test = testWith("--demo", "none", "--partitions", "2");
test.describe.configure({ mode: "serial" }); // the first test needs a namespace in which nothing has happened

/** Screens by the keys that lead to them, and what each says in a namespace in which nothing has happened. */
const screens = [
  ["go", "Overview", ["Nothing needs you.", "sagalog workflow apply FILE", "No step is waiting."]],
  ["gt", "Tasks", ["No task has been submitted yet", "sagalog task submit -w WORKFLOW"]],
  ["ga", "Agents", ["No agent has announced itself", "sagalog serve --roles agent"]],
  ["gp", "Partitions", ["dev"]], // there are always some
  ["gd", "Dead letters", ["There are none. Inputs that cannot be used appear here."]],
  ["gw", "Workflows", ["No workflow has been applied yet", "sagalog workflow apply FILE"]],
  ["gs", "Schedules", ["There are no schedules", "cron: 0 2 * * MON-FRI"]],
  ["gl", "Limits", ["There are no limits", "sagalog limit set bank --max 20"]],
  ["gj", "Jobs", ["There are no jobs yet", "sagalog task retry --state parked"]],
] as const;

/** No screen is wider than the window. */
const fits = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

test("each screen says what to do while there is nothing to show", async ({ page, engine }) => {
  await page.goto(engine.url);
  for (const [keys, title, words] of screens) {
    await page.keyboard.type(keys);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(title);
    for (const w of words) await expect(page.locator("main")).toContainText(w);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await accessible(page);
    }
  }
  await page.goto(`${engine.url}/tasks?state=error`);
  await expect(page.locator("main")).toContainText("No task matches.");
});

/** Chooses a verb on a task's screen by its key, fills the fields, and sends it. */
async function ask(page: Page, o: { key: string; fill?: Record<string, string>; choose?: Record<string, string>; says: string }): Promise<void> {
  await page.keyboard.type(o.key);
  const dialog = page.getByRole("dialog");
  for (const [label, value] of Object.entries(o.choose ?? {})) await dialog.getByLabel(label).selectOption(value);
  for (const [label, value] of Object.entries(o.fill ?? {})) await dialog.getByLabel(label).fill(value);
  await dialog.getByLabel("Reason, for the history").fill("a test");
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("status")).toContainText(o.says);
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
}

test("every verb of a task, and what each does", async ({ page, engine, expected }) => {
  expected.push(/status of 409/); // the browser tells its console of each refusal
  await world(engine);
  const agents = engine.agents("agents");
  try {
    const submit = (id: string, size: number) => engine.cli("task", "submit", "-w", "order", "--id", id, "--label", "batch=1", "--deadline", "1h", "--input", `{"size":${size}}`);
    for (const [id, size] of [["o-1", 0], ["o-2", 0], ["o-3", 0], ["o-4", 9]] as const) await submit(id, size);
    const at = async (id: string, state: string) => {
      if (!page.url().endsWith(`/tasks/${id}`)) await page.goto(`${engine.url}/tasks/${id}`);
      await expect(page.locator("header.title .state")).toHaveText(state);
    };
    await at("o-1", "parked");
    await expect(page.getByRole("status").filter({ hasText: "out of boxes" })).toBeVisible();
    await expect(page.getByLabel(/^\d+ % of the time until the deadline$/)).toBeVisible();
    await ask(page, { key: "r", fill: { "Input in place of the resolved one": '{"size":2}' }, says: "o-1: granted" });
    await at("o-1", "running");
    await ask(page, { key: "p", says: "o-1: granted" });
    await at("o-1", "running, paused");
    await ask(page, { key: "u", says: "o-1: granted" });
    await at("o-1", "running");
    await ask(page, { key: "S", fill: { "Name of the signal": "approval", "Payload (JSON)": '{"by":"anna"}' }, says: "o-1: granted" });
    await at("o-1", "processed");
    await page.keyboard.type("w");
    await expect(page.getByLabel("the task as the API shows it", { exact: true })).toContainText('"id": "o-1"');
    await page.keyboard.type("i");
    await expect(page.getByLabel("input of the task", { exact: true })).toContainText('"size": 0');
    await ask(page, { key: "R", fill: { "Another input (JSON)": '{"size":3}' }, says: "o-1: granted" });
    await expect(page.locator("header.title")).toContainText("run 2");

    await at("o-2", "parked");
    await ask(page, { key: "s", choose: { Step: "pack" }, fill: { "Output (JSON)": '{"box":2}' }, says: "o-2: granted" });
    await at("o-2", "running");
    await ask(page, { key: "c", says: "o-2: granted" });
    await at("o-2", "undone");

    await at("o-3", "parked");
    await ask(page, { key: "d", choose: { Step: "pack" }, fill: { "Output (JSON)": '{"box":3}' }, says: "o-3: granted" });
    await at("o-3", "running");
    await ask(page, { key: "T", says: "o-3: granted" });
    await at("o-3", "terminated");

    await at("o-4", "running");
    await expect(page.getByRole("button", { name: "pack: running" })).toBeVisible();
    await ask(page, { key: "f", choose: { Step: "pack", "What the attempt may have changed": "none" }, fill: { "What went wrong": "it is stuck" }, says: "o-4: granted" });
    await at("o-4", "parked");
    await expect(page.getByRole("status").filter({ hasText: "it is stuck" })).toBeVisible();

    // The history has who did it.
    await page.keyboard.type("h");
    await expect(page.getByRole("list").filter({ hasText: "it is stuck" })).toContainText("an operator failed the attempt");
    await page.goto(`${engine.url}/tasks?label=batch:1&state=processed`);
    await expect(page.getByRole("button", { name: /^Without state:processed there are 4 tasks$/ })).toBeVisible();
    await page.getByRole("button", { name: /^Without state/ }).click();
    await expect(page.getByRole("row")).toHaveCount(5);
    const file = page.waitForEvent("download");
    await page.getByRole("button", { name: "CSV" }).click();
    expect((await file).suggestedFilename()).toBe("tasks.csv");

    await page.keyboard.type("jxjx");
    await page.getByRole("toolbar", { name: /selected tasks/ }).getByRole("button", { name: "pause" }).click();
    await page.keyboard.press("Enter");
    await expect(page.getByRole("dialog").getByRole("listitem")).toHaveCount(2);
    await page.keyboard.press("Escape");
  } finally {
    await agents.end();
  }
});

/** Sends a dialog, whose button was pressed, and expects what it says. */
async function send(page: Page, o: { fill?: Record<string, string>; line: string; says: string | RegExp }): Promise<void> {
  const dialog = page.getByRole("dialog");
  for (const [label, value] of Object.entries(o.fill ?? {})) await dialog.getByLabel(label).fill(value);
  await dialog.getByText("the same from a terminal").click();
  await expect(dialog.locator("pre").first()).toContainText(o.line);
  await expect(dialog.locator("pre").last()).toContainText("curl -sS -X");
  await accessible(page);
  await dialog.getByRole("button", { name: o.line.split(" ")[2] ?? "", exact: true }).click();
  await expect(dialog.getByRole("status")).toContainText(o.says);
  await dialog.getByRole("button", { name: "close" }).click();
  await expect(dialog).toHaveCount(0);
}

/** Puts what no command makes: an input that cannot be read. */
const badInput = (engine: Engine) =>
  new Promise<void>((done, fail) => {
    const kcat = execFile("kcat", ["-P", "-b", engine.kafka, "-t", "sagalog.submissions", "-k", "bad"], (e) => (e ? fail(e) : done()));
    kcat.stdin?.end("bad\n");
  });

test("every action of the other screens", async ({ page, engine, expected }) => {
  expected.push(/status of 4\d\d/);
  await engine.cli("workflow", "apply", "lost.yaml");
  await engine.cli("schedule", "apply", "nightly.yaml");
  await badInput(engine);
  const agents = engine.agents("agents");
  try {
    await page.goto(`${engine.url}/agents`);
    const button = (name: string | RegExp) => page.getByRole("button", { name, exact: typeof name === "string" });
    await button("pause agent pack").click();
    await send(page, { fill: { "Reason, for the record": "the boxes are wet" }, line: "sagalog agents pause pack --reason 'the boxes are wet'", says: "done" });
    await expect(page.getByRole("row").filter({ hasText: "paused: the boxes are wet" })).toBeVisible();
    await button("resume agent pack").click();
    await send(page, { line: "sagalog agents resume pack", says: "done" });
    await expect(page.getByRole("row").filter({ hasText: "healthy" })).toBeVisible();

    await page.keyboard.type("gl");
    await button("set a limit").click();
    await send(page, { fill: { Name: "bank", "Attempts at a time, from 1 to 100000; empty: only the rate limits them": "20" }, line: "sagalog limit set bank --max 20", says: "done" });
    await expect(page.getByRole("row", { name: /bank/ })).toContainText("0 of 20");
    await button("pause limit bank").click();
    await send(page, { line: "sagalog limit pause bank", says: "granted" });
    await expect(page.getByRole("row", { name: /bank/ })).toContainText("paused");
    await button("resume limit bank").click();
    await send(page, { line: "sagalog limit resume bank", says: "granted" });
    await page.getByRole("link", { name: "bank" }).click();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("bank");
    await expect(page.locator("main")).toContainText("No permit is in use.");
    await button("set limit bank").click();
    await send(page, { fill: { "Starts per unit of time, such as 50/s or 30/m; empty: only the maximum limits them": "50/s" }, line: "sagalog limit set bank --max 20 --rate 50/s", says: "done" });
    await expect(page.locator("header.title")).toContainText("50/s");

    await page.keyboard.type("gs");
    await button("trigger schedule nightly").click();
    await send(page, { line: "sagalog schedule trigger nightly", says: "granted" });
    await expect(page.getByRole("row", { name: /nightly/ })).toContainText("processed");
    await button("pause schedule nightly").click();
    await send(page, { line: "sagalog schedule pause nightly", says: "granted" });
    await expect(page.getByRole("row", { name: /nightly/ })).toContainText("paused");
    await button("resume schedule nightly").click();
    await send(page, { line: "sagalog schedule resume nightly", says: "granted" });
    await button("backfill schedule nightly").click();
    const since = new Date(Date.now() - 2 * 86_400_000).toISOString().slice(0, 19);
    await send(page, { fill: { "First due time, such as 2026-11-20T00:00:00Z": `${since}Z` }, line: `sagalog schedule backfill nightly --since ${since}Z`, says: /started/ });

    await page.keyboard.type("gd");
    await page.getByRole("link", { name: "unreadable" }).click();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("bad");
    await expect(page.locator("main")).toContainText("is not JSON");
    await accessible(page);
    await button("redrive the dead letter").click();
    await page.getByRole("dialog").getByText("the same from a terminal").click();
    await expect(page.getByRole("dialog").locator("pre").first()).toContainText("sagalog dlq redrive submissions-");
    await page.getByRole("button", { name: "redrive", exact: true }).click();
    await expect(page.getByRole("dialog").getByRole("alert").or(page.getByRole("dialog").getByRole("status"))).toBeVisible();
    await page.getByRole("dialog").getByRole("button", { name: "close" }).click();

    for (const id of ["l-1", "l-2", "l-3"]) await engine.cli("task", "submit", "-w", "lost", "--id", id);
    await page.goto(`${engine.url}/tasks?workflow=lost`);
    await expect(page.getByRole("row")).toHaveCount(4);
    await button("act on all that match …").click();
    await page.getByLabel("What").selectOption("pause");
    await page.getByLabel("Rate").fill("1/m");
    await button("show which tasks").click();
    await button("pause 3 tasks").click();
    await expect(page.getByRole("dialog")).toContainText("The job has started");
    await page.getByRole("dialog").getByRole("link", { name: "Jobs" }).click();
    await button(/^stop job/).click();
    await send(page, { line: "sagalog job stop", says: "done" });
    await expect(page.getByRole("row").filter({ hasText: "pause" })).toContainText("stopped");
    await expect(button(/^stop job/)).toHaveAttribute("title", "The job has ended.");
  } finally {
    await agents.end();
  }
});

test("each screen with content fits a phone and a wall, in both themes", async ({ page, engine }) => {
  await page.goto(engine.url);
  for (const size of [{ width: 360, height: 640 }, { width: 3840, height: 2160 }]) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme: size.width === 360 ? "dark" : "light" });
    for (const [keys, title] of screens) {
      await page.keyboard.type(keys);
      await expect(page.getByRole("heading", { level: 1 })).toHaveText(title);
      await expect(page.locator("main")).not.toContainText("Reading");
      expect(await fits(page), `${title} at ${size.width}`).toBe(true);
      await accessible(page);
    }
    await page.goto(`${engine.url}/tasks/o-1`);
    await expect(page.getByRole("group", { name: "steps" })).toBeVisible();
    for (const key of ["t", "h", "i", "w"]) {
      await page.keyboard.type(key);
      expect(await fits(page), `${key} of a task at ${size.width}`).toBe(true);
      await accessible(page);
    }
  }
});
