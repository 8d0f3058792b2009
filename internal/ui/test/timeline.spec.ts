import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { HistoryEvent } from "../src/api/client";
import { bars } from "../src/parts/bars";
import { accessible, expect, testWith } from "./engine";

/** A command that fails, and can be tried again, so many times. It counts in a file. */
const flaky = (file: string, times: number): string =>
  `exec: {command: [sh, -c, 'cat >/dev/null; n=$(cat ${file} 2>/dev/null || echo 0); echo $((n+1)) >${file}; test $n -ge ${times} || { echo not yet >&2; exit 75; }; echo "{}"'], env: [PATH]}\n`;

/** The desk is reserved and given back after some attempts each. The badge is refused. */
const files: Record<string, string> = {
  "onboard.yaml": `workflow: onboard
defaults: {complete_within: 120s}
steps:
  desk: {agent: desk, retry: {attempts: 9, backoff: 2s, then: undo}, undo: {retry: {attempts: 9, backoff: 2s}}}
  badge: {needs: [desk], agent: badge, retry: {attempts: 1, then: undo}}
`,
  "agents/desk.yaml": `agent: desk\n${flaky("done", 1)}undo:\n  ${flaky("undone", 2)}`,
  "agents/badge.yaml": "agent: badge\nexec: {command: [sh, -c, 'cat >/dev/null; exit 3'], env: [PATH]}\n",
};

const test = testWith("--demo", "none");

test("waits between attempts are thin, say before which attempt they were, and are in the lane of their operation", async ({ page, engine }) => {
  mkdirSync(join(engine.dir, "agents"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(engine.dir, name), text);
  await engine.cli("workflow", "apply", "onboard.yaml");
  const agents = engine.agents("agents");
  try {
    await engine.cli("task", "submit", "-w", "onboard", "--id", "eve", "--input", "{}", "--wait", "--timeout", "300s");
    await page.goto(`${engine.url}/tasks/eve`);
    const desk = page.getByRole("listitem").filter({ has: page.getByRole("button", { name: "desk", exact: true }) });
    const waits = desk.getByRole("img", { name: /^waits / });
    await expect(waits).toHaveCount(3);
    const labels = await waits.evaluateAll((all) => all.map((e) => e.getAttribute("aria-label") ?? ""));
    expect(labels.map((l) => l.replace(/(waits) [\d.]+ m?s( before attempt \d) from .*/, "$1$2"))).toEqual(["waits before attempt 2", "waits before attempt 2", "waits before attempt 3"]);
    const attempts = desk.getByRole("img", { name: /attempt \d: / });
    await expect(attempts).toHaveCount(5);
    const look = (name: RegExp) => desk.getByRole("img", { name }).evaluateAll((all) => all.map((e) => ({ box: e.getBoundingClientRect().toJSON() as DOMRect, colour: getComputedStyle(e).color })));
    const [did] = await look(/^attempt 2: completed/);
    const [undid] = await look(/^undo, attempt 3: completed/);
    const seen = await look(/^waits /);
    if (!did || !undid) throw new Error("an attempt is not shown");
    for (const [i, w] of seen.entries()) {
      const lane = i === 0 ? did : undid;
      expect(w.box.height).toBeLessThan(lane.box.height / 2);
      expect(w.box.top).toBeGreaterThan(lane.box.top);
      expect(w.box.bottom).toBeLessThan(lane.box.bottom);
      expect([did.colour, undid.colour]).not.toContain(w.colour);
    }
    for (const { box } of await look(/attempt \d: /)) expect(box.width).toBeGreaterThanOrEqual(4);
    await accessible(page);
  } finally {
    await agents.end();
  }
});

const fact = (second: number, type: string, attempt?: number, data: object = {}): HistoryEvent => ({ type, time: new Date(1000 * second).toISOString(), step: "desk", ...(attempt ? { attempt } : {}), data: { step: "desk", ...data } }) as unknown as HistoryEvent;
const again = (second: number, action = "retry") => ({ verdict: { action, at: new Date(1000 * second).toISOString() } });

test("a wait that another attempt, a person or nothing ends stays a wait, and an attempt has its own length", () => {
  const drawn = bars(
    [
      fact(0, "StepStarted", 1),
      fact(1, "StepFailed", 1, again(5)),
      fact(5, "StepStarted", 2),
      fact(6, "Timeout", 2, { operation: "do", ...again(9, "cool_down") }),
      fact(9, "StepStarted", 1),
      fact(10, "StepCompleted", 1),
      fact(20, "CompensationStarted", 1),
      fact(21, "CompensationFailed", 1, again(25)),
      fact(23, "StepSkipped", undefined, { left: true }),
    ],
    30_000,
  );
  expect(drawn.map((b) => `${b.operation} ${b.kind} ${b.outcome} ${b.from / 1000}-${(b.to ?? 0) / 1000} ${b.next ?? ""}`.trim())).toEqual([
    "do do failed 0-1",
    "do retry waiting 1-5 2",
    "do do timed_out 5-6",
    "do cool_down waiting 6-9 1",
    "do do completed 9-10",
    "undo undo failed 20-21",
    "undo retry waiting 21-23",
  ]);
  const [, open] = bars([fact(0, "StepStarted", 1), fact(1, "StepFailed", 1, again(5))], 2000);
  expect(open).toMatchObject({ kind: "retry", outcome: "waiting", due: 5000 });
  expect(open?.to).toBeUndefined();
});
