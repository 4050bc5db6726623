/** The screen of guides, fetched when somebody looks at one. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { GuidesScreen } from "./screen";

const screen = signal<typeof GuidesScreen | null>(null);
const fault = signal(false);

export function Guides({ name }: { name?: string }) {
  useEffect(() => {
    import("./screen").then((module) => (screen.value = module.GuidesScreen), () => (fault.value = true));
  }, []);
  if (screen.value) return <screen.value {...(name ? { name } : {})} />;
  if (fault.value) return <p class="panel empty bad" role="alert">The guides could not be loaded. Load the page again.</p>;
  return <p class="panel empty">Loading …</p>;
}
