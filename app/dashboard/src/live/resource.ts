/** Fetched data with its age; it stays on the page if a later fetch fails. */
import { type Signal, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Refused } from "../api/client";

export interface Loaded<T> {
  data: T | null;
  /** When it was fetched, in milliseconds since 1970. */
  at: number;
  /** Why the latest fetch failed; null if it succeeded. */
  error: Refused | Error | null;
}

export class Resource<T> {
  readonly state: Signal<Loaded<T>> = signal({ data: null, at: 0, error: null });
  private running: AbortController | null = null;
  private isWanted = false;

  constructor(private readonly load: (signal: AbortSignal) => Promise<T>) {}

  /** Fetch it; if a fetch is under way, once more after that. */
  async refresh(): Promise<void> {
    if (this.running) {
      this.isWanted = true;
      return;
    }
    const running = (this.running = new AbortController());
    try {
      const data = await this.load(running.signal);
      if (!running.signal.aborted) this.state.value = { data, at: Date.now(), error: null };
    } catch (error) {
      if (!running.signal.aborted) this.state.value = { ...this.state.value, error: error as Error };
    }
    if (this.running === running) this.running = null;
    if (this.isWanted && !running.signal.aborted) {
      this.isWanted = false;
      await this.refresh();
    }
  }

  stop(): void {
    this.running?.abort();
    this.running = null;
  }
}

/** Fetch repeatedly, as long as the page is visible. */
export function usePolling<T>(load: (signal: AbortSignal) => Promise<T>, seconds: number, deps: unknown[] = []): Resource<T> {
  const [resource, set] = useState(() => new Resource(load));
  useEffect(() => {
    const current = new Resource(load);
    current.state.value = resource.state.peek();
    set(current);
    void current.refresh();
    const tick = (): void => {
      if (!document.hidden) void current.refresh();
    };
    const timer = setInterval(tick, seconds * 1000);
    document.addEventListener("visibilitychange", tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
      current.stop();
    };
  }, deps);
  return resource;
}

/** Return a function that calls at once, and then at most once in this many seconds. */
export function throttled(call: () => void, seconds: number): { (): void; cancel(): void } {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let isWanted = false;
  const run = (): void => {
    if (timer !== null) {
      isWanted = true;
      return;
    }
    call();
    timer = setTimeout(() => {
      timer = null;
      if (isWanted) {
        isWanted = false;
        run();
      }
    }, seconds * 1000);
  };
  run.cancel = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    isWanted = false;
  };
  return run;
}
