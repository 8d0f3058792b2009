import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, type Engine, expect, testWith } from "./engine";

const test = testWith("--demo", "none", "--partitions", "2");

const files: Record<string, string> = {
  "booking.yaml": `workflow: booking
steps:
  hold: {agent: desk, complete_within: 60s, undo: {}}
  confirm: {needs: [hold], wait: {signal: answer}, fail_if: "\${ !output.payload.free }", fail_reason: nothing is free}
`,
  "trip.yaml": `workflow: trip
steps:
  flight: {child: {workflow: booking}, undo: {}}
  hotel: {child: {workflow: booking}, undo: {}}
  mail: {needs: [flight, hotel], agent: desk}
`,
  "agents/desk.yaml": `agent: desk
exec: {command: [sh, -c, "true"], env: [PATH]}
undo:
  exec: {command: [sh, -c, "true"]}
`,
};

async function apply(engine: Engine): Promise<void> {
  mkdirSync(join(engine.dir, "agents"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(engine.dir, name), text);
  await engine.cli("workflow", "apply", "booking.yaml");
  await engine.cli("workflow", "apply", "trip.yaml");
}

test("a task and its children show each other, from the wait to the undo", async ({ page, engine }) => {
  await apply(engine);
  const agents = engine.agents("agents");
  try {
    await engine.cli("task", "submit", "-w", "trip", "--id", "t-1");
    const title = page.getByRole("heading", { level: 1 });
    const state = page.locator("header.title .state");
    const link = (name: string) => page.getByRole("link", { name, exact: true });

    await page.goto(`${engine.url}/tasks/t-1`);
    for (const step of ["flight", "hotel"]) {
      await expect(page.getByRole("status").filter({ hasText: "waiting" })).toContainText(`Step ${step} is waiting for the task that it started: t-1/${step}.`);
    }
    await expect(page.locator("dd").filter({ hasText: "t-1/hotel" }).first()).toHaveText("t-1/flight running, t-1/hotel running");
    await accessible(page);

    // The step leads to its child, and the child to the step of its parent.
    await page.getByRole("button", { name: /^flight: / }).click();
    const step = page.getByRole("region", { name: "step flight" });
    await accessible(page);
    await step.getByRole("link", { name: "t-1/flight", exact: true }).click();
    await expect(title).toHaveText("t-1/flight");
    await expect(page.getByRole("status").filter({ hasText: "Step confirm is waiting for a signal: answer" })).toBeVisible();
    await accessible(page);
    await engine.cli("task", "signal", "t-1/flight", "answer", "--payload", '{"free":true}');
    await expect(state).toHaveText("processed");
    await link("step flight of t-1").click();
    await expect(title).toHaveText("t-1");
    await expect(page.getByRole("button", { name: /^flight: completed/ })).toBeVisible();

    // The other child fails, so the first is undone.
    await link("t-1/hotel").click();
    await expect(title).toHaveText("t-1/hotel");
    await engine.cli("task", "signal", "t-1/hotel", "answer", "--payload", '{"free":false}');
    await expect(state).toHaveText("undone");
    await expect(page.getByRole("status").filter({ hasText: "nothing is free" })).toBeVisible();
    await link("step hotel of t-1").click();
    await expect(title).toHaveText("t-1");
    await expect(state).toHaveText("undone");
    await expect(page.getByRole("button", { name: /^flight: .*undo undone/ })).toBeVisible();
    await expect(page.locator("dd").filter({ hasText: "t-1/hotel" }).first()).toHaveText("t-1/flight undone, t-1/hotel undone");
    await page.keyboard.type("h");
    await expect(page.getByRole("list").filter({ hasText: "t-1/flight" })).toContainText("task t-1/flight is asked to undo itself");
    await accessible(page);
    await page.keyboard.type("t");
    await link("t-1/flight").click();
    await expect(title).toHaveText("t-1/flight");
    await expect(state).toHaveText("undone");
  } finally {
    await agents.end();
  }
});
