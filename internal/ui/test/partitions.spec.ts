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

test("the partitions show what was not sent yet, and the nodes their disk and their clocks", async ({ page, engine }) => {
  await page.goto(`${engine.url}/partitions`);
  const nodes = page.getByRole("region", { name: "nodes" });
  const own = nodes.getByRole("row").nth(1);
  await expect(own).toContainText(/\d (bytes|KiB|MiB)/); // what its store takes of the disk
  await expect(own).toContainText("serves this page");
  await expect(page.getByRole("table", { name: "partitions" }).getByRole("row").nth(1)).toContainText("dev");
  await page.route("**/v1/nodes", (route) =>
    route.fulfill({
      json: {
        nodes: [
          { node: "node-a", partitions: [0], state_bytes: 5 << 20, free_bytes: 900, broker_ahead: "-3s" },
          { node: "node-b", partitions: [], silent: true, clock_ahead: "2.5s" },
        ],
      },
    }),
  );
  const since = "2026-11-21T14:00:00.000Z";
  await page.route("**/v1/partitions", (route) =>
    route.fulfill({
      json: [
        { partition: 0, owner: "node-a", since, live: 3, outbox: [{ class: "work", records: 12, bytes: 4096, age: "3.5s" }, { class: "dead_letter", records: 1, bytes: 10 }] },
        { partition: 1, owner: "node-a", since },
        { partition: 2 },
      ],
    }),
  );
  await page.reload();
  const row = (n: number) => page.getByRole("table", { name: "partitions" }).getByRole("row").nth(n);
  await expect(row(1)).toContainText("12 work, the oldest for 3.5s; 1 dead letter");
  await expect(row(2)).toContainText("nothing");
  await expect(row(3)).toContainText("nobody");
  await expect(own).toContainText("5.0 MiB");
  await expect(own).toContainText("900 bytes");
  await expect(own).toContainText("3s behind");
  await expect(nodes.getByRole("row").nth(2)).toContainText("silent");
  await expect(nodes.getByRole("row").nth(2)).toContainText("not known");
  await expect(nodes.getByRole("row").nth(2)).toContainText("2.5s ahead");
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await accessible(page);
  }
});
