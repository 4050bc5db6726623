/** The events of a job so far: those that its stream sends before the first comment. */
import { address, type EventView, Refused } from "../api/client";
import { readFrames } from "./stream";

export async function pastEvents(
  job: number,
  types: string[],
  take: (event: EventView) => void,
  leaving: AbortSignal,
): Promise<void> {
  const done = new AbortController();
  const signal = AbortSignal.any([done.signal, leaving]);
  const url = address("/v1/events", { query: { job, type: types.join(",") } });
  try {
    const response = await fetch(url, { signal });
    if (!response.ok) throw new Refused(response.status, "unknown", `Events: the server answered ${response.status}.`);
    await readFrames(response, (frame) => take(JSON.parse(frame.data) as EventView), () => done.abort());
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
