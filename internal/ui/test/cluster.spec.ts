import { appendFileSync, existsSync } from "node:fs";
import { expect, type Page, test } from "@playwright/test";

/** TestClusterPage of internal/e2e runs this in front of nodes that it kills meanwhile, and compares what was seen with what the engine says. */
const url = process.env["PAGE_CLUSTER"] ?? "";
/** Where each change of what the page shows is written: a line of JSON with the task, its state in words, the badge and the instant. */
const seen = process.env["PAGE_SEEN"] ?? "";
/** The file that ends the test. */
const stop = process.env["PAGE_STOP"] ?? "";

/** How many deliveries are looked at at once, each on a page of its context. */
const pages = 4;

async function watch(page: Page): Promise<void> {
  await page.exposeFunction("sagalogSeen", (line: string) => appendFileSync(seen, `${line}\n`));
  await page.addInitScript(() => {
    let last = "";
    const text = (selector: string): string => document.querySelector(selector)?.textContent ?? "";
    const look = (): void => {
      const now = { task: text(".task h1"), state: text(".task .title .state"), badge: text(".top .lag") };
      if (now.task === "" || JSON.stringify(now) === last) return;
      last = JSON.stringify(now);
      void (window as unknown as { sagalogSeen: (line: string) => void }).sagalogSeen(JSON.stringify({ ...now, at: new Date().toISOString() }));
    };
    new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
  });
}

test("what the page shows of deliveries while nodes are killed", async ({ context, request }) => {
  test.skip(url === "", "run by SAGALOG_TEST_KAFKA=1 go test ./internal/e2e -run TestClusterPage");
  test.setTimeout(1_800_000);
  const looked = new Set<string>();
  const look = async (): Promise<void> => {
    const page = await context.newPage();
    await watch(page);
    while (!existsSync(stop)) {
      const answer = await request.get(`${url}/v1/tasks?state=processing&state=pending&limit=20`).catch(() => undefined);
      const { tasks } = answer?.ok() ? ((await answer.json()) as { tasks: { id: string }[] }) : { tasks: [] };
      const next = tasks.find((t) => !looked.has(t.id));
      if (!next) {
        await page.waitForTimeout(100);
        continue;
      }
      looked.add(next.id);
      await page.goto(`${url}/tasks/${next.id}`);
      await expect(page.locator(".task .title .state")).toHaveText(/^(processed|undone)$/);
    }
  };
  await Promise.all(Array.from({ length: pages }, look));
  expect(looked.size).toBeGreaterThan(0);
});
