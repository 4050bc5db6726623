/** The server's events, as this tab gets them from the worker. */
import { signal } from "@preact/signals";
import type { EventView } from "../api/client";
import type { FromTab, Port } from "./events-worker";
import type { LinkState, Message } from "./follower";

export const linkState = signal<LinkState>("connecting");
/** Since when the state is what it is, in milliseconds since 1970. */
export const linkSince = signal(Date.now());

type Listener = (event: EventView) => void;
const listeners = new Set<Listener>();
const resumers = new Set<() => void>();

/** Call a listener with each event; returns a function that ends it. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Call a listener when a broken stream is back: events of the meantime may have been missed. */
export function onResume(listener: () => void): () => void {
  resumers.add(listener);
  return () => resumers.delete(listener);
}

let say: (message: FromTab) => void = () => {};

/** Begin to follow, or try again at once. */
export function followEvents(): void {
  say({ type: "retry" });
}

/** End the stream for all tabs, because the user has logged out. */
export function leaveEvents(): void {
  say({ type: "stop" });
}

export function startEvents(): void {
  const base = new URL(".", document.baseURI).href;
  const port = portOfWorker();
  port.onmessage = ({ data }: MessageEvent<Message>) => hear(data);
  say = (message) => port.postMessage(message);
  const hello = (): void => say({ type: "hello", base });
  hello();
  addEventListener("pagehide", () => say({ type: "bye" }));
  addEventListener("pageshow", (event) => event.persisted && hello());
}

/** Chrome on Android has no shared workers: there each tab has its own worker. */
function portOfWorker(): Port {
  if ("SharedWorker" in window) return new SharedWorker(new URL("./events-worker.ts", import.meta.url), { type: "module" }).port;
  return new Worker(new URL("./events-worker.ts", import.meta.url), { type: "module" });
}

function hear(message: Message): void {
  if (message.type === "frame") {
    const event = JSON.parse(message.frame.data) as EventView;
    for (const listener of listeners) listener(event);
    return;
  }
  const isBack = message.state === "live" && linkState.value === "broken";
  linkState.value = message.state;
  linkSince.value = message.since;
  if (isBack) for (const listener of resumers) listener();
}
