import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, type Engine, expect, testWith } from "./engine";

const test = testWith("--demo", "none", "--partitions", "2");

/** See pictures.spec.ts. */
const pictures = process.env["PAGE_PICTURES"] ?? "";

const files: Record<string, string> = {
  "invoices.yaml": `workflow: invoices
steps:
  send:
    for: {each: "\${ input.ids }", as: id, parallel: 10, tolerate: 1, collect: failures}
    agent: mailer
    complete_within: 60s
    retry: {attempts: 1, then: park}
    with: {id: "\${ id }"}
  report: {needs: [send], agent: mailer, with: {id: "\${ 'report' }"}}
`,
  "agents/mailer.yaml": `agent: mailer
exec:
  env: [PATH]
  command: [sh, -c, 'test "$1" != no-address-7 && { test "$1" != no-address-61 || test "$SAGALOG_ATTEMPT" -gt 1; }', mailer, "\${ input.id }"]
`,
};

async function run(engine: Engine): Promise<void> {
  mkdirSync(join(engine.dir, "agents"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(engine.dir, name), text);
  await engine.cli("workflow", "apply", "invoices.yaml");
  const ids = Array.from({ length: 70 }, (_, i) => (i === 7 || i === 61 ? `no-address-${i}` : `customer-${i}`));
  await engine.cli("task", "submit", "-w", "invoices", "--id", "day-1", "--input", JSON.stringify({ ids }));
}

test("a fan-out is one node with a bar, and its items are listed and retried", async ({ page, engine }) => {
  await run(engine);
  const agents = engine.agents("agents");
  try {
    await page.goto(`${engine.url}/tasks/day-1`);
    const state = page.locator("header.title .state");
    await expect(state).toHaveText("parked", { timeout: 60_000 });
    const node = page.getByRole("button", { name: /^send: / });
    await expect(node).toHaveAccessibleName(/\d+ of 70 items done, 2 failed/);
    await expect(node.locator("rect.part")).toHaveCount(4);
    await node.click();
    const items = page.getByRole("region", { name: "items of send" });
    await expect(items.getByRole("row")).toHaveCount(51); // with the heading
    await expect(page.getByRole("list", { name: "timeline of attempts" }).getByRole("listitem")).toHaveCount(1);
    await expect(page.getByRole("img", { name: /^\d+ attempts at items: completed, .*: [23] failed$/ })).toBeVisible();
    if (pictures !== "") await page.screenshot({ path: join(pictures, "items.png") });
    await expect(items.getByRole("button", { name: "Previous" })).toBeDisabled();
    await items.getByRole("button", { name: "Next" }).click();
    await expect(items.getByRole("button", { name: "send[61]", exact: true })).toBeVisible();
    await accessible(page);

    await items.getByLabel("Show").selectOption("failed");
    await expect(items.getByRole("row")).toHaveCount(3);
    await items.getByRole("button", { name: "send[7]", exact: true }).click();
    const one = page.getByRole("region", { name: "step send[7]" });
    await expect(one).toContainText("no-address-7");
    await accessible(page);

    // The other one has failed beyond what is tolerated, so the task is parked. It succeeds when it is tried again.
    await page.goto(`${engine.url}/tasks/day-1?step=send%5B61%5D`);
    await expect(page.getByRole("region", { name: "step send[61]" })).toContainText("no-address-61");
    await engine.cli("task", "retry", "day-1", "--step", "send[61]");
    await expect(state).toHaveText("processed", { timeout: 60_000 });
    await expect(page.getByRole("button", { name: /^send: completed, 69 of 70 items done, 1 failed/ })).toBeVisible();
  } finally {
    await agents.end();
  }
});
