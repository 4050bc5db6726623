import { defineConfig } from "vite";

// Pages are served at `/` and `/docs`, what they load at `/static/`: all by relative addresses, so
// that a proxy may put the server below any path.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../static",
    emptyOutDir: true,
    assetsDir: "",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: ["chrome123", "firefox120", "safari17.5"],
    rolldownOptions: { input: ["index.html", "docs.html"] },
  },
  worker: { format: "es" },
  experimental: {
    renderBuiltUrl: (file, { hostType }) =>
      hostType === "html" ? `./static/${file}` : { relative: true },
  },
});
