/** The end of a job's log, with new lines as they arrive. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { EventView } from "../api/client";
import { clock, number } from "../format";
import { onEvent } from "../live/events";
import { pastEvents } from "../live/past";

const TYPES = ["log", "claimed", "metric", "checkpoint", "paused", "resumed", "succeeded", "failed", "cancelled", "released", "deferred", "exhausted", "expired", "retried"];
const MOST_LINES = 500;

export function Log({ job }: { job: number }) {
  const events = useSignal<EventView[]>([]);
  const isLoaded = useSignal(false);
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const leaving = new AbortController();
    const add = (event: EventView): void => {
      if (event.job_id !== job || !TYPES.includes(event.type)) return;
      if (events.value.some((one) => one.id === event.id)) return;
      events.value = [...events.value, event].sort((a, b) => a.id - b.id).slice(-MOST_LINES);
    };
    const end = onEvent(add);
    void pastEvents(job, TYPES, add, leaving.signal).finally(() => (isLoaded.value = true));
    return () => {
      leaving.abort();
      end();
    };
  }, [job]);
  useLayoutEffect(() => {
    if (isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [events.value]);
  const note = (): void => {
    const at = box.current;
    if (at) isAtEnd.current = at.scrollTop + at.clientHeight > at.scrollHeight - 8;
  };
  return (
    <div class="log" ref={box} onScroll={note} tabIndex={0} role="log" aria-label={`Log of job ${job}`}>
      {events.value.map((one) => <Line key={one.id} event={one} />)}
      {events.value.length === 0 && <span class="quiet">{isLoaded.value ? "Nothing was logged yet." : "Loading …"}</span>}
    </div>
  );
}

function Line({ event }: { event: EventView }) {
  const level = String(event.data["level"] ?? "info");
  return (
    <div class={level}>
      <code><span class="time">{clock(event.created_at)}</span> {textOf(event)}</code>
    </div>
  );
}

function textOf({ type, data, attempt }: EventView): string {
  switch (type) {
    case "log":
      return String(data["message"]);
    case "claimed":
      return `attempt ${attempt} begins${data["executor"] ? ` on ${String(data["executor"])}` : ""}`;
    case "checkpoint":
      return `checkpoint ${String(data["epoch"])}${data["batch"] ? `.${String(data["batch"])}` : ""} saved`;
    case "metric":
      return `epoch ${Number(data["epoch"]) + 1}, ${data["part"] === "train" ? "training" : "validation"}: ${valuesOf(data["metrics"])}`;
    case "failed":
    case "released":
    case "deferred":
    case "exhausted": {
      const error = (data["error"] ?? data) as { message?: string };
      return `${type}${error.message ? `: ${error.message}` : ""}`;
    }
    default:
      return type;
  }
}

function valuesOf(metrics: unknown): string {
  return Object.entries((metrics ?? {}) as Record<string, number | null>).map(([name, value]) => `${name} ${number(value)}`).join(", ");
}
