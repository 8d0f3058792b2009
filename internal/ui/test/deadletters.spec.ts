import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { around, layOut, placesOf } from "../src/parts/layout";
import { accessible, type Engine, expect, testWith } from "./engine";

const test = testWith("--demo", "none", "--partitions", "2");

const put = (engine: Engine, key: string, value: string | Buffer, ...flags: readonly string[]) =>
  new Promise<void>((done, fail) => {
    const kcat = execFile("kcat", ["-P", "-b", engine.kafka, "-t", "sagalog.submissions", "-k", key, ...flags], (e) => (e ? fail(e) : done()));
    kcat.stdin?.end(value);
  });

const both = async (page: Page) => {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await accessible(page);
  }
};

test("JSON is laid out as it was written, and a place in it is found", () => {
  const laid = layOut('{"a":[1,{"b/c":12345678901234567890.10}],"e":{},"e":[ ]}', new Set(["", "/a/1/b~1c", "/none"]));
  if (!("places" in laid)) throw new Error("it is JSON");
  expect(laid.text).toBe('{\n  "a": [\n    1,\n    {\n      "b/c": 12345678901234567890.10\n    }\n  ],\n  "e": {},\n  "e": []\n}');
  const p = laid.places.get("/a/1/b~1c");
  expect(laid.text.slice(p?.line, p?.lineEnd)).toBe('"b/c": 12345678901234567890.10');
  expect(laid.text.slice(p?.from, p?.to)).toBe("12345678901234567890.10");
  expect(laid.places.has("/none")).toBe(false);
  expect(layOut('{"a":1,}', new Set())).toEqual({ stops: 7 });
  expect(layOut("{} x", new Set())).toEqual({ stops: 3 });
  expect(layOut("", new Set())).toEqual({ stops: 0 });
  expect(layOut("[".repeat(100_000), new Set())).toHaveProperty("stops");
  expect(around("/a/b")).toEqual(["/a/b", "/a", ""]);
  expect(placesOf("/input/a: got string, want number; /input/b: is; so\n/id: is not")).toEqual([
    { pointer: "/input/a", says: "got string, want number" },
    { pointer: "/input/b", says: "is; so" },
    { pointer: "/id", says: "is not" },
  ]);
  expect(placesOf('no workflow "a" has been applied')).toEqual([]);
});

test("dead letters are in groups by reason, their faults are marked, and one is redriven edited, and one as it is", async ({ page, engine, expected }) => {
  expected.push(/status of 4\d\d/); // of what is rejected again
  writeFileSync(join(engine.dir, "order.yaml"), "workflow: order\ninput: {type: object, required: [amount], properties: {amount: {type: number}}}\nsteps:\n  approve: {wait: {signal: go}, complete_within: 24h}\n");
  await engine.cli("workflow", "apply", "order.yaml");
  await put(engine, "o-1", '{"workflow":"order","input":{"amount":"12","n":12345678901234567890}}\n', "-H", "shop=vienna");
  await put(engine, "o-2", '{"workflow":"order","input":{}}\n');
  await put(engine, "o-3", '{"workflow":"later","input":{"amount":1}}\n');
  await put(engine, "o-4", '{"workflow":"order","input":{"amount":1,}}\n');
  await put(engine, "o-5", Buffer.from([0xff, 0xfe, 0x41, 0x0a]));
  await put(engine, "o-6", '{"specversion":"1.0","id":"1","source":"shop","type":"x","data":{"workflow":"order","input":{"amount":[]}}}\n', "-H", "content-type=application/cloudevents+json");

  await page.goto(engine.url);
  const needs = page.getByRole("region", { name: "needs you" });
  await expect(needs).toContainText(/\d+ dead letters in the last 24 hours, the newest .*: .*3 schema/);
  await page.keyboard.type("gd");
  const reasons = page.getByRole("navigation", { name: "reasons" });
  for (const name of ["All 6", "schema 3", "unreadable 2", "unknown workflow 1"]) await expect(reasons.getByRole("button", { name, exact: true })).toBeVisible();
  await reasons.getByRole("button", { name: "schema 3" }).focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/reason=schema$/);
  await expect(page.getByRole("row")).toHaveCount(4);
  await both(page);

  const record = page.getByLabel("record", { exact: true });
  const open = async (key: string) => {
    await page.goto(`${engine.url}/dead-letters`);
    await page.getByRole("row").filter({ hasText: key }).getByRole("link").click();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(key);
  };
  await open("o-6");
  await expect(record.locator("mark")).toHaveText('"amount": []');
  await open("o-5");
  await expect(record).toContainText("ff fe 41");
  await expect(page.locator("main")).toContainText("3 bytes, not text");
  await open("o-4");
  await expect(record.locator("mark")).toHaveText("}}");
  await expect(record).toContainText("from here on it is not JSON");
  await open("o-2");
  await expect(record.locator("mark")).toHaveText('"input": {}');
  await open("o-1");
  await expect(record.locator("mark")).toHaveText('"amount": "12"');
  await expect(record).toContainText("← /input/amount got string, want number");
  await expect(record).toContainText('"n": 12345678901234567890');
  await expect(page.getByLabel("headers", { exact: true })).toContainText('"shop": "vienna"');
  await expect(page.locator("main")).toContainText("sagalog.submissions");
  await both(page);
  await page.keyboard.type("b");
  await expect(record).toHaveText('{"workflow":"order","input":{"amount":"12","n":12345678901234567890}}');

  // As it is, it would come back. Edited, it is a new submission, by keys alone.
  const dialog = page.getByRole("dialog");
  await page.keyboard.type("r");
  await expect(dialog.getByLabel("as it is")).toBeChecked();
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("alert")).toContainText("does not fit the schema");
  await dialog.getByLabel("as it is").press("ArrowDown");
  const text = dialog.getByLabel("Submission (JSON)");
  await expect(text).toHaveValue(/^\{\n  "id": "o-1",\n  "workflow": "order"/);
  await expect(text).toHaveValue(/"n": 12345678901234567890\n/);
  await both(page);
  await text.fill('{"id": "o-1", "workflow": "order", "input": {"amount": 12,}}');
  await dialog.getByRole("button", { name: "submit" }).click();
  await expect(dialog.getByRole("alert")).toContainText("not JSON from line 1, column 59 on");
  await text.fill('{"id": "o-1", "workflow": "order",\n"input": {"amount": 12, "n": 12345678901234567890}}');
  await dialog.getByText("the same from a terminal").click();
  await expect(dialog.locator("pre").first()).toContainText("sagalog task submit --from -");
  await dialog.getByRole("button", { name: "submit" }).click();
  await expect(dialog.getByRole("status")).toContainText("Accepted. Task o-1 is running.");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("status").filter({ hasText: "Redriven" })).toContainText("as task o-1: edited and submitted");
  expect(await (await fetch(`${engine.url}/v1/tasks/o-1`)).text()).toContain("12345678901234567890");

  writeFileSync(join(engine.dir, "later.yaml"), "workflow: later\nsteps:\n  approve: {wait: {signal: go}, complete_within: 24h}\n");
  await engine.cli("workflow", "apply", "later.yaml");
  await open("o-3");
  await expect(record).toContainText("later"); // it is read: before that there is nothing to redrive
  await page.keyboard.type("r");
  await expect(dialog.getByLabel("as it is")).toBeChecked();
  await dialog.getByRole("button", { name: "redrive", exact: true }).click();
  await expect(dialog.getByRole("status")).toContainText("Accepted. Task o-3 is running.");
  await dialog.getByRole("link", { name: "Open the task" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("o-3");

  // Another tab sees what was done. One is dismissed by keys, and the others together.
  await open("o-5");
  await page.keyboard.type("x");
  await dialog.getByLabel("Reason, for the record").fill("a test of the sender");
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("status")).toContainText("1 of 1 dismissed");
  await both(page);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("status").filter({ hasText: "Dismissed" })).toContainText("a test of the sender");
  await page.goto(`${engine.url}/dead-letters`);
  await expect(reasons.getByRole("button", { name: "All 3", exact: true })).toBeVisible();
  await page.getByLabel("also redriven and dismissed ones").check();
  await expect(reasons.getByRole("button", { name: "All 6", exact: true })).toBeVisible();
  await expect(page.getByRole("row").filter({ hasText: "o-3" })).toContainText("redriven");
  await page.getByRole("button", { name: "redrive all 3 …" }).click();
  await dialog.getByRole("button", { name: "redrive", exact: true }).click();
  await expect(dialog.getByRole("status")).toContainText("0 of 3 sent again.");
  await expect(dialog.getByRole("alert")).toHaveCount(3);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "dismiss all 3 …" }).click();
  await dialog.getByLabel("Reason, for the record").press("Enter");
  await expect(dialog.getByRole("status")).toContainText("3 of 3 dismissed.");
  await page.keyboard.press("Escape");
  await page.getByLabel("also redriven and dismissed ones").uncheck();
  await expect(page.locator("main")).toContainText("All that were read are redriven or dismissed.");
  expect(await engine.cli("dlq", "list", "--open")).toBe("");
  await page.goto(engine.url);
  await expect(needs).not.toContainText("dead letters");
});

test("what is not read is not counted, and the screen says so", async ({ page, engine }) => {
  type List = { dead_letters: { id: string; mark?: unknown }[]; next?: string; missing?: unknown };
  for (const key of ["p-1", "p-2", "p-3"]) await put(engine, key, '{"workflow":"unknown"}\n');
  await expect(async () => expect(((await (await fetch(`${engine.url}/v1/dead-letters`)).json()) as List).dead_letters.length).toBeGreaterThan(2)).toPass();
  let all: List | undefined; // in two pages, as if each had room for two
  await page.route("**/v1/dead-letters?**", async (route) => {
    all ??= (await (await route.fetch()).json()) as List;
    const first = !route.request().url().includes("cursor=");
    const list: List = first ? { dead_letters: all.dead_letters.slice(0, 2), next: "below", missing: [{ partition: 1, reason: "its brokers do not answer" }] } : { dead_letters: all.dead_letters.slice(2) };
    await route.fulfill({ json: list });
  });
  await page.goto(`${engine.url}/dead-letters?reason=expired`);
  const reasons = page.getByRole("navigation", { name: "reasons" });
  await expect(reasons.getByRole("button", { name: "All 2+", exact: true })).toBeVisible();
  await expect(page.locator("main")).toContainText("None of the 2 that were read has this reason.");
  await expect(page.locator("main")).toContainText("The newest 2 are read; the counts are of these.");
  await expect(page.getByRole("status").filter({ hasText: "Partitions 1 cannot be read now (its brokers do not answer)" })).toBeVisible();
  await both(page);
  await page.getByRole("button", { name: "read 500 older ones" }).focus();
  await page.keyboard.press("Enter");
  await expect(reasons.getByRole("button", { name: `All ${all?.dead_letters.filter((d) => !d.mark).length}`, exact: true })).toBeVisible();
  await expect(page.getByText("The newest")).toHaveCount(0);
});
