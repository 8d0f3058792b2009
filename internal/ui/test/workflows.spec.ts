import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Page } from "@playwright/test";
import { diff, excerpt } from "../src/parts/diff";
import { fieldsOf, inputOf, parse, placeOf, valuesOf } from "../src/parts/schema";
import { accessible, type Engine, expect, testWith } from "./engine";
import { world } from "./world";

const test = testWith("--demo", "none", "--partitions", "2");
test.describe.configure({ mode: "serial" });
const shell = promisify(execFile);

/** A workflow whose input has a field of each kind. */
const pay = (step: string) => `workflow: pay
input:
  type: object
  required: [customer, amount, to]
  additionalProperties: false
  properties:
    customer: {type: string, minLength: 2, title: Who pays, description: The name of the customer}
    amount: {type: number, exclusiveMinimum: 0}
    count: {type: integer, default: 1}
    express: {type: boolean}
    way: {enum: [card, bank, 3]}
    due: {type: string, format: date}
    at: {type: string, format: date-time}
    to: {type: object, required: [iban], properties: {iban: {type: string, minLength: 4}, bic: {type: string}}}
    tags: {type: array, items: {type: string}}
    size: {$ref: "#/$defs/size"}
  $defs: {size: {type: integer, minimum: 1}}
labels: {customer: "\${ input.customer }"}
steps:
  ${step}: {agent: bank, with: {amount: "\${ input.amount }"}, complete_within: 5s}
  capture: {needs: [${step}], agent: capture, complete_within: 5s}
`;

async function apply(engine: Engine, name: string, text: string): Promise<void> {
  writeFileSync(join(engine.dir, name), text);
  await engine.cli("workflow", "apply", name);
}

test.use({ timezoneId: "UTC" });

const both = async (page: Page) => {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await accessible(page);
  }
};

test("a form from the schema shows each fault at its field, and starts", async ({ page, engine, expected }) => {
  expected.push(/status of 422/);
  await apply(engine, "pay.yaml", pay("hold"));
  await page.goto(`${engine.url}/workflows/pay`);
  await page.keyboard.type("n");
  const form = page.getByRole("region", { name: "start a task" });
  const field = (name: string) => form.getByLabel(name, { exact: true });
  await expect(field("count")).toHaveValue("1");
  await expect(field("way").getByRole("option")).toHaveText(["leave out", "card", "bank", "3"]);
  await expect(field("express").getByRole("option")).toHaveText(["leave out", "true", "false"]);
  await both(page);

  // What the page itself can tell.
  await field("amount (required)").fill("ten");
  await page.keyboard.press("Enter");
  await expect(field("Who pays customer (required)")).toBeFocused();
  await expect(field("Who pays customer (required)")).toHaveAccessibleDescription("The name of the customer Who pays: is missing");
  await expect(field("amount (required)")).toHaveAccessibleDescription("amount: is not a number");
  await expect(field("iban (required)")).toHaveAttribute("aria-invalid", "true");

  // What the engine tells.
  await field("Who pays customer (required)").fill("b");
  await field("amount (required)").fill("-1");
  await field("iban (required)").fill("AT1");
  await field("size").fill("0");
  await field("tags").fill('["a", 1]');
  await form.getByRole("button", { name: "preview" }).click();
  await expect(field("Who pays customer (required)")).toHaveAccessibleDescription(/minLength/);
  await expect(field("amount (required)")).toHaveAccessibleDescription("amount: is -1, and must be more than 0");
  await expect(field("iban (required)")).toHaveAttribute("aria-invalid", "true");
  await expect(field("size")).toHaveAccessibleDescription(/must be at least 1/);
  await expect(field("tags")).toHaveAccessibleDescription(/\/1: got number, want string/);
  await form.getByText("ID, labels, deadline, priority").click();
  await field("Deadline").fill("soon");
  await form.getByRole("button", { name: "start" }).click();
  await expect(field("Deadline")).toHaveAccessibleDescription(/neither a positive duration/);
  await both(page);

  await field("Who pays customer (required)").fill("o'neill");
  await field("amount (required)").fill("12.50");
  await field("iban (required)").fill("AT12");
  await field("size").fill("3");
  await field("tags").fill('["a"]');
  await field("express").selectOption("true");
  await field("way").selectOption("3");
  await field("due").fill("2026-12-24");
  await field("at").fill("2026-12-24T18:30:00");
  await field("Deadline").fill("1h");
  await field("Labels").fill("batch:7 test:1");
  await form.getByRole("button", { name: "preview" }).click();
  const foreseen = form.getByRole("region", { name: "preview", exact: true });
  await expect(foreseen).toContainText("Labels: customer:o'neill");
  await expect(foreseen.getByRole("row", { name: /^hold/ })).toContainText("starts at once");
  await expect(foreseen.getByRole("row", { name: /^hold/ })).toContainText('{"amount":12.5}');
  await expect(foreseen.getByRole("row", { name: /^capture/ })).toContainText("waits for hold");
  await both(page);

  // Another tab and Escape leave the form as it is.
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "definition", exact: true }).click();
  await page.getByRole("button", { name: "start a task", exact: true }).click();
  await expect(field("iban (required)")).toHaveValue("AT12");

  await form.getByRole("button", { name: "start" }).click();
  const link = form.getByRole("status").getByRole("link");
  const id = (await link.textContent()) ?? "";
  await link.click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(id);
  await page.keyboard.type("i");
  const input = page.getByLabel("input of the task", { exact: true });
  await expect(input).toContainText('"amount": 12.5');
  expect(JSON.parse((await input.textContent()) ?? "")).toEqual({ customer: "o'neill", amount: 12.5, count: 1, express: true, way: 3, due: "2026-12-24", at: "2026-12-24T18:30:00Z", to: { iban: "AT12" }, tags: ["a"], size: 3 });
});

test("the lines of a form do the same from a terminal", async ({ page, engine }) => {
  await page.goto(`${engine.url}/workflows/pay?tab=start`);
  const form = page.getByRole("region", { name: "start a task" });
  await form.getByText("ID, labels, deadline, priority").click();
  await form.getByRole("button", { name: "JSON" }).click();
  await form.getByLabel("Input", { exact: true }).fill(`{"customer":"o'neill \\"\\n\\\\","amount":1,"to":{"iban":"AT12"}}`);
  await form.getByLabel("Labels").fill("batch:8");
  for (const [way, program] of [["sagalog", process.env["SAGALOG"]], ["curl", "curl"], ["kcat", "kcat"]] as const) {
    await form.getByLabel("ID of the task").fill(`by-${way}`);
    if (way !== "sagalog") await page.getByRole("tab", { name: way === "curl" ? "sagalog" : "curl" }).press("ArrowRight");
    await expect(page.getByRole("tab", { name: way })).toHaveAttribute("aria-selected", "true");
    const line = ((await page.getByRole("tabpanel").locator("pre").textContent()) ?? "").replace("BROKER", engine.kafka);
    await shell("sh", ["-c", way === "sagalog" ? line.replace(/^sagalog/, program ?? "") : line]);
    await expect(async () => {
      const t = JSON.parse(await engine.cli("task", "get", `by-${way}`, "-o", "json")) as { input: { customer: string }; labels: Record<string, string> };
      expect(t.input.customer).toBe("o'neill \"\n\\");
      expect(t.labels["batch"]).toBe("8");
    }).toPass();
  }
  // What JSON says comes back into the fields, and what they cannot hold is said.
  await form.getByRole("button", { name: "form" }).click();
  await expect(form.getByLabel("iban")).toHaveValue("AT12");
  await form.getByRole("button", { name: "JSON" }).click();
  await form.getByLabel("Input", { exact: true }).fill('{"amount": 12345678901234567890}');
  await form.getByRole("button", { name: "preview" }).click();
  await expect(form.getByLabel("Input", { exact: true })).toHaveAccessibleDescription(/more than 15 digits/);
  await form.getByLabel("Input", { exact: true }).fill('{"other": 1}');
  await form.getByRole("button", { name: "form" }).click();
  await expect(form.getByLabel("Input", { exact: true })).toHaveAccessibleDescription(/no field for other/);
});

test("what a form cannot hold is JSON, and numbers stay as they are", () => {
  const object = (properties: object, more: object = {}) => fieldsOf({ type: "object", properties, ...more });
  expect(fieldsOf(undefined)).toBeUndefined();
  expect(fieldsOf({ type: "array" })).toBeUndefined();
  expect(object({ a: {} }, { oneOf: [] })).toBeUndefined();
  expect(object({ a: {}, b: { type: ["string", "null"] }, c: { anyOf: [] }, d: { $ref: "#/no" }, e: { const: 7 } })?.map((f) => f.kind)).toEqual(["json", "text", "json", "json", "choice"]);
  const deep = object({ a: { properties: { b: { properties: { c: {} } } } } });
  expect(deep?.[0]?.fields.map((f) => [f.pointer, f.kind])).toEqual([["/a/b", "json"]]);
  const odd = object({ "a/b~": { type: "number" } }) ?? [];
  expect(placeOf(odd, "/a~1b~0/x")).toBe("/a~1b~0");
  for (const [text, input] of [["007", 7], ["-0.5", -0.5], ["1e3", 1000]] as const) expect(inputOf(odd, { "/a~1b~0": text })).toEqual({ input: { "a/b~": input }, wrong: {} });
  for (const text of ["1,5", "1e999", "12345678901234567", "0x1", "."]) expect(inputOf(odd, { "/a~1b~0": text }).wrong["/a~1b~0"], text).toBeDefined();
  expect(parse('{"id": "12345678901234567890"}')).toEqual({ value: { id: "12345678901234567890" } });
  expect(fieldsOf({ $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } })).toBeUndefined();
  const values = valuesOf(object({ s: { type: "string" }, at: { type: "string", format: "date-time" } }) ?? [], { s: "", at: "2026-12-24T18:30:00Z" });
  expect(values).toEqual({ wrong: 'The field for s cannot hold "".' });
});

test("a comparison has the lines that are gone and new", () => {
  const lines = (a: string, b: string) => diff(a, b)?.map((l) => ({ gone: "-", new: "+", same: " " })[l.kind] + l.text).join("|");
  expect(lines("a\nb\nc", "a\nb\nc")).toBe(" a| b| c");
  expect(lines("a\nb\nc", "a\nx\nc\nd")).toBe(" a|-b|+x| c|+d");
  expect(lines("a\na", "a\na\na")).toBe(" a| a|+a");
  expect(lines("b\nc\nd", "c\nd\nb")).toBe("-b| c| d|+b");
  const many = Array.from({ length: 3000 }, (_, i) => `x${i}`).join("\n");
  expect(diff(many, many.replaceAll("x", "y"))).toBeUndefined();
  expect(excerpt(diff("1\n2\n3\n4\n5\n6\n7\n8\n9", "1\n2\n3\n4\n5\n6\n7\n8\nx") ?? []).map((l) => (typeof l === "number" ? l : l.text))).toEqual([5, "6", "7", "8", "9", "x"]);
});

test("a role that may not submit reads why", async ({ page, engine }) => {
  await page.route("**/v1/whoami", (route) => route.fulfill({ json: { access: "on", role: "viewer", name: "vera" } }));
  await page.goto(`${engine.url}/workflows/pay?tab=start`);
  for (const name of ["preview", "start"]) {
    const button = page.getByRole("button", { name, exact: true });
    await expect(button).toHaveAttribute("aria-disabled", "true");
    await expect(button).toHaveAttribute("title", "This needs the role submitter, and you have the role viewer.");
    await button.click({ force: true });
  }
  await expect(page.getByRole("region", { name: "start a task" })).toContainText("This needs the role submitter");
  await expect(page.getByRole("alert")).toHaveCount(0);
  await both(page);
});

test("versions are listed, and two of them compared", async ({ page, engine }) => {
  await apply(engine, "pay.yaml", pay("authorize"));
  await page.goto(`${engine.url}/workflows/pay`);
  await page.keyboard.type("v");
  const versions = page.getByRole("region", { name: "versions" });
  await expect(versions.getByRole("row", { name: /^2, current, shown/ })).toContainText("ago");
  const changes = versions.getByRole("region", { name: "from version 1 to version 2" });
  await expect(changes.getByRole("insertion").filter({ hasText: '"authorize": {' })).toBeVisible();
  await expect(changes.getByRole("deletion").filter({ hasText: '"hold": {' })).toBeVisible();
  await expect(changes).toContainText("lines are the same");
  await expect(changes).toContainText("sagalog workflow diff pay@1 pay@2");
  await both(page);
  await page.locator("header.title").getByRole("combobox", { name: /^version/ }).selectOption("1");
  await versions.getByRole("button", { name: "2 with 1" }).click();
  await expect(page).toHaveURL(/from=2/);
  await expect(versions.getByRole("region", { name: "from version 2 to version 1" }).getByRole("insertion").filter({ hasText: '"hold": {' })).toBeVisible();
});

test("steps have their failures and times in words", async ({ page, engine }) => {
  await world(engine);
  const agents = engine.agents("agents");
  try {
    for (const [id, size] of [["h-1", 0], ["h-2", 1], ["h-3", 2], ["h-4", 3]] as const) await engine.cli("task", "submit", "-w", "order", "--id", id, "--input", `{"size":${size}}`);
    await page.goto(`${engine.url}/workflows/order`);
    const steps = page.getByRole("group", { name: "steps" });
    await expect(steps.getByRole("button", { name: /^pack: 1 of 4 failed, p95 [\d.]+ m?s$/ })).toBeVisible();
    await expect(steps.locator("g.step.heat3")).toHaveCount(1);
    await page.getByRole("combobox", { name: /^over/ }).selectOption("6h");
    await page.getByRole("combobox", { name: /^heat/ }).selectOption("time");
    await expect(page).toHaveURL(/over=6h&heat=time/);
    await page.getByText("attempts of steps as a table").click();
    await expect(page.getByRole("row", { name: /^pack 4 1 0/ })).toBeVisible();
    await both(page);
    await page.keyboard.press("Escape");
    await expect(page.getByRole("row", { name: /^order/ })).toContainText(/4 started, 1 parked/);
  } finally {
    await agents.end();
  }
});
