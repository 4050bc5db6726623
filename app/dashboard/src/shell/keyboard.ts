/** Keys that work on every screen. */
import { signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { go, link, place } from "../router";
import { nextTheme } from "./theme";

export const isHelpOpen = signal(false);
/** Whether the next screen should focus its search field. */
const wantsSearch = signal(false);

let isAfterG = false;

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || document.querySelector("dialog[open]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event.key)) event.preventDefault();
  });
}

function press(key: string): boolean {
  const wasAfterG = isAfterG;
  isAfterG = key === "g" && !wasAfterG;
  if (wasAfterG && key === "o") go(link([]));
  else if (wasAfterG && key === "j") go(link(["jobs"]));
  else if (wasAfterG && key === "m") go(link(["modules"]));
  else if (wasAfterG && key === "g") go(link(["guides"]));
  else if (wasAfterG && key === "u") go(link(["upload"]));
  else if (key === "/") search();
  else if (key === "?") isHelpOpen.value = true;
  else if (key === "t") nextTheme();
  else return false;
  return true;
}

function search(): void {
  wantsSearch.value = true;
  const { parts } = place.value;
  if (parts[0] !== "jobs" && !/graph|parameters/.test(parts[2] ?? "")) go(link(["jobs"]));
}

/** The search field of a screen; in a layout effect, so that it is focused before the next key is pressed. */
export function useSearchField(): RefObject<HTMLInputElement | null> {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (!wantsSearch.value) return;
    wantsSearch.value = false;
    field.current?.focus();
  }, [wantsSearch.value]);
  return field;
}
