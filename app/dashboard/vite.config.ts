import { defineConfig } from "vite";
import { jsxCalls } from "./bundle/jsx";
import { smallerPlot } from "./bundle/uplot";

// Pages are served at `/` and `/docs`, what they load at `/static/`: all by relative addresses, so
// that a proxy may put the server below any path.
export default defineConfig({
  base: "./",
  plugins: [jsxCalls(), smallerPlot()],
  build: {
    outDir: "../static",
    emptyOutDir: true,
    assetsDir: "",
    assetsInlineLimit: 0,
    cssCodeSplit: false, // in one file they pack to less
    modulePreload: { polyfill: false },
    target: ["chrome123", "firefox120", "safari17.5"],
    rolldownOptions: {
      input: ["index.html", "docs.html"],
      // One file for all screens that are fetched later: together they pack to less.
      output: { codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: "models", test: /src.(graph|params|guides|upload|train|try|api.upload)./ }] } },
    },
  },
  worker: { format: "es" },
  experimental: {
    renderBuiltUrl: (file, { hostType }) =>
      hostType === "html" ? `./static/${file}` : { relative: true },
  },
});
