/** Calls made of elements as `jsx(type, props, ...children)`: they pack to less than objects that name their children. */
import type { Plugin } from "vite";

export function jsxCalls(): Plugin {
  return {
    name: "jsx-calls",
    enforce: "pre",
    config: () => ({ oxc: { jsx: { runtime: "classic", pragma: "jsx", pragmaFrag: "Fragment" } } }),
    transform: {
      filter: { id: /\.tsx$/ },
      handler: (code) => `${code}\nimport { h as jsx, Fragment } from "preact";`,
    },
  };
}
