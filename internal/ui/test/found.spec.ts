import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, expect, testWith } from "./engine";

/** The goods are reserved, the card is refused, and what was reserved cannot be given back. */
const files: Record<string, string> = {
  "half.yaml": `workflow: half
defaults: {complete_within: 60s, retry: {attempts: 1, then: undo}}
steps:
  reserve: {agent: stock, undo: {}}
  charge: {needs: [reserve], agent: card}
`,
  "agents/stock.yaml": `agent: stock
exec: {command: [sh, -c, 'cat >/dev/null; echo "{}"'], env: [PATH]}
undo:
  exec: {command: [sh, -c, 'cat >/dev/null; echo the shelf is gone >&2; exit 3']}
`,
  "agents/card.yaml": "agent: card\nexec: {command: [sh, -c, 'cat >/dev/null; exit 3'], env: [PATH]}\n",
};

const test = testWith("--demo", "none");

test("an undo that an operator skipped is not drawn as done, and a long ID is whole", async ({ page, engine }) => {
  mkdirSync(join(engine.dir, "agents"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(engine.dir, name), text);
  await engine.cli("workflow", "apply", "half.yaml");
  const agents = engine.agents("agents");
  const id = "6f1f0f0e-5c3a-4d47-9f0b-3f1f8a3c9d21";
  try {
    await engine.cli("task", "submit", "-w", "half", "--id", id, "--input", "{}", "--wait", "--timeout", "120s");
    await engine.cli("task", "skip", id, "--step", "reserve", "--operation", "undo", "--reason", "it stays on the shelf", "--yes", "--wait");
    expect(await engine.cli("task", "get", id)).toMatch(/reserve +stock +skipped \(effect left\) .*skipped: what the step did is left/);
    await page.setViewportSize({ width: 1400, height: 800 });
    await page.goto(`${engine.url}/tasks`);
    const cell = page.getByRole("link", { name: id }).locator("..");
    await expect(cell).toBeVisible();
    expect(await cell.evaluate((e) => e.scrollWidth <= e.clientWidth)).toBe(true);
    await page.goto(`${engine.url}/tasks/${id}?step=reserve`);
    await expect(page.getByRole("group", { name: "steps" }).getByRole("button", { name: "reserve: skipped (effect left), undo skipped (effect left)" })).toBeVisible();
    await expect(page.getByRole("img", { name: /^undo: skipped, .*what the step did is left/ })).toBeVisible();
    await expect(page.getByRole("region", { name: "step reserve" })).toContainText("skipped (effect left)");
    await expect(page.getByRole("group", { name: "steps" })).not.toContainText("undone");
    await accessible(page);
  } finally {
    await agents.end();
  }
});
