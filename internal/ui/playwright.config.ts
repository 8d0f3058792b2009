import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "test",
  outputDir: process.env["PAGE_OUT"] ?? "/tmp/sagalog-page",
  timeout: 900_000, // on a machine that is busy with other tests
  expect: { timeout: 180_000 },
  workers: 1,
  reporter: [["list"]],
  use: { launchOptions: { executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] }, viewport: { width: 1280, height: 800 } },
});
