import { accessible, expect, test } from "./engine";

test("the take-overs of a partition are shown below the partitions", async ({ page, engine }) => {
  await page.route("**/v1/partitions/0/takeovers", (route) =>
    route.fulfill({
      json: {
        partition: 0,
        node: "node-a",
        takeovers: [
          { owner: "node-a", from: "node-b", epoch: "3-e", at: "2026-11-21T14:00:00.000Z", cause: "silent", gap: "3.5s", void: 2 },
          { owner: "node-b", from: "node-c", epoch: "2-d", at: "2026-11-21T13:00:00.000Z" },
        ],
      },
    }),
  );
  await page.goto(`${engine.url}/partitions`);
  await page.getByRole("link", { name: "take-overs of partition 0" }).click();
  await expect(page).toHaveURL(/of=0/);
  const log = page.getByRole("table", { name: "take-overs of partition 0" });
  await expect(log.getByRole("row").nth(1)).toContainText("its heartbeats ended");
  await expect(log.getByRole("row").nth(1)).toContainText("3.5s");
  await expect(log.getByRole("row").nth(2)).toContainText("not known");
  await accessible(page);
  await page.goto(`${engine.url}/partitions?of=1`);
  await expect(page.getByRole("table", { name: "take-overs of partition 1" })).toContainText("No node has taken it over");
});
