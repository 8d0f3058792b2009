import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Engine, expect, testWith } from "./engine";
import { Hands } from "./hands";
import { world } from "./world";

const test = testWith("--demo", "none", "--partitions", "4");
test.describe.configure({ mode: "serial" }); // the first test makes the workflows

let agents: Engine;
test.beforeAll(async ({ running: engine }) => {
  await world(engine);
  agents = engine.agents("agents");
});
test.afterAll(async () => agents.end());

const submit = (engine: Engine, id: string, size: number) => engine.cli("task", "submit", "-w", "ship", "--id", id, "--input", `{"size":${size}}`);

test("find why o-17 stands, change its input, retry the step, see it end", async ({ page, engine }) => {
  await submit(engine, "o-17", 0);
  await engine.cli("task", "submit", "-w", "ship", "--id", "other", "--wait", "--input", '{"size":1}');
  await page.goto(engine.url);
  const hands = new Hands(page);
  await hands.press("/");
  await hands.type("o-17");
  await hands.press("Enter");
  await hands.look(page.locator("main"), "no retry can help: sh exited with 3: out of boxes");
  await hands.press("r");
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByLabel("Step")).toHaveValue("pack");
  await hands.tabTo(dialog.getByLabel("Input in place of the resolved one"));
  await hands.press("Control+a");
  await hands.type('{"size":2}');
  await hands.tabTo(dialog.getByLabel("Reason, for the history"));
  await hands.type("a size that there is");
  await hands.press("Enter");
  await hands.look(dialog.getByRole("status"), "o-17: granted");
  await hands.press("Escape");
  await hands.look(page.locator("header.title .state"), "processed");
  await hands.press("h");
  await hands.look(page.getByRole("list").filter({ hasText: "out of boxes" }), "a size that there is");
  hands.done("find why o-17 stands, change its input, retry the step, see it end");
});

test("an agent is missing", async ({ page, engine }) => {
  await agents.end();
  await expect(async () => expect(((await (await fetch(`${engine.url}/v1/agents`)).json()) as { agents: unknown[] }).agents).toEqual([])).toPass(); // or it would be given the step
  await submit(engine, "m-1", 1);
  await page.goto(engine.url);
  const hands = new Hands(page);
  await hands.press("g", "o");
  const needs = page.getByRole("region", { name: "needs you" });
  await hands.look(needs, /agent pack( is needed, but no live instance offers do|: )/);
  await hands.tabTo(needs.getByRole("link", { name: /agent pack/ }));
  await hands.press("Enter");
  await hands.look(page.getByRole("row").filter({ hasText: "pack" }), "needed, but no instance offers: do");
  await hands.press("/");
  await hands.type("m-1");
  await hands.press("Enter");
  await hands.look(page.locator("main"), "Step pack is waiting for an instance of its agent");
  agents = engine.agents("agents"); // as somebody does at a terminal
  await hands.look(page.locator("header.title .state"), "processed");
  await hands.press("g", "a");
  await hands.look(page.getByRole("row").filter({ hasText: "pack" }), "healthy");
  hands.done("an agent is missing");
});

test("214 tasks are parked for one reason", async ({ page, engine }) => {
  writeFileSync(join(engine.dir, "closed"), "");
  const lines = Array.from({ length: 214 }, (_, i) => `{"id":"s-${i}","workflow":"ship","input":{"size":7}}\n`);
  writeFileSync(join(engine.dir, "all.ndjson"), lines.join(""));
  await engine.cli("task", "submit", "--from", "all.ndjson");
  await page.goto(engine.url);
  const hands = new Hands(page);
  await hands.press("g", "o");
  const needs = page.getByRole("region", { name: "needs you" });
  await hands.look(needs, "214 tasks of ship parked");
  await hands.look(needs, /214 tasks with \w+/);
  const retry = needs.getByRole("button", { name: /^retry 214 tasks of ship with/ });
  await expect(retry).toBeVisible();
  rmSync(join(engine.dir, "closed")); // the cause is removed outside
  await hands.tabTo(retry);
  await hands.press("Enter");
  const dialog = page.getByRole("dialog");
  await hands.tabTo(dialog.getByLabel("Reason, for the history"));
  await hands.type("it is open again");
  await hands.press("Enter");
  await hands.look(dialog.getByRole("status"), "214 tasks match: 214 parked");
  await hands.press("Enter");
  await hands.look(dialog.getByRole("status"), "The job has started");
  await hands.press("Escape");
  await hands.look(needs, "Nothing needs you.");
  await hands.press("g", "j");
  await hands.look(page.getByRole("row").filter({ hasText: "retry" }), "214 of 214");
  hands.done("214 tasks are parked for one reason");
});

test("who took over a partition, and why", async ({ page, engine }) => {
  const node = engine.node("n2");
  try {
    await node.start();
    const owned = async (): Promise<number[]> => ((await (await fetch(`${engine.url}/v1/partitions`)).json()) as { partition: number; owner?: string }[]).filter((p) => p.owner === "n2").map((p) => p.partition);
    await expect(async () => expect((await owned()).length).toBe(2)).toPass({ timeout: 180_000 });
    const [partition] = (await owned()).reverse();
    await node.end("SIGKILL");
    await page.goto(engine.url);
    const hands = new Hands(page);
    await hands.press("g", "p");
    const row = page.getByRole("row", { name: new RegExp(`\\b${partition} dev`) });
    await hands.look(row, "from n2: its heartbeats ended");
    hands.done(`who took over partition ${partition}, and why`);
  } finally {
    await node.end();
  }
});
