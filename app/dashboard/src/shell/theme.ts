/** The theme: light, dark or the system's; remembered in this browser. */
import { effect, signal } from "@preact/signals";

const KEY = "modserve-theme";
type Theme = "auto" | "light" | "dark";
const THEMES: Theme[] = ["auto", "light", "dark"];

export const theme = signal<Theme>(THEMES.find((one) => one === localStorage.getItem(KEY)) ?? "auto");
/** Counts changes of the colours; drawings that depend on it are drawn again. */
export const paint = signal(0);

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto";
}

effect(() => {
  const chosen = theme.value;
  localStorage.setItem(KEY, chosen);
  if (chosen === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
  paint.value = paint.peek() + 1;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  paint.value += 1;
});

const probe = document.createElement("i");
probe.hidden = true;

/** Return a colour of the style sheet in a form that a canvas accepts. */
export function colour(name: string): string {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}
