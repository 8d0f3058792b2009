import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// The page is served below any prefix, so all addresses in it are relative to <base>, which the server writes.
export default defineConfig({
  base: "./",
  plugins: [preact({ devToolsEnabled: false })],
  build: { target: "es2023", sourcemap: false, modulePreload: false, assetsInlineLimit: 0, chunkSizeWarningLimit: 400 },
});
