/** A state in words with a symbol, so that it is never shown by colour alone. */
import type { ComponentChildren } from "preact";

export type Tone = "good" | "warn" | "bad" | "active" | "idle";

const SIGNS: Record<Tone, ComponentChildren> = {
  good: <path d="M2 6.5 5 9.5 10 3" />,
  warn: <path d="M4 2v8M8 2v8" />,
  bad: <path d="M2.5 2.5l7 7M9.5 2.5l-7 7" />,
  active: <path d="M3.5 2v8l6-4z" fill="currentColor" />,
  idle: <circle cx="6" cy="6" r="4" />,
};

export function State({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <span class={`state ${tone}`}>
      <svg viewBox="0 0 12 12" fill="none" stroke="currentColor" stroke-width="1.75" aria-hidden="true">{SIGNS[tone]}</svg>
      {children}
    </span>
  );
}
