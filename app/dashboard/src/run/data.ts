/** The data of one run: its job, curves and events. */
import { signal } from "@preact/signals";
import { get, type Job, type EventView, Refused, type Series } from "../api/client";
import { isFinished } from "../jobs/states";
import { onEvent, onResume } from "../live/events";
import { pastEvents } from "../live/past";
import { throttled } from "../live/resource";

/** The name of the series of learning rates, which older servers did not write. */
export const RATE = "learning_rate";
const TYPES = ["progress", "metric", "checkpoint", "claimed"];
/** How often the curves of an unfinished run are fetched again. */
const CURVES_SECONDS = 2;

export interface Run {
  job: Job;
  series: Map<string, Series>;
  events: EventView[];
}

export class RunFeed {
  readonly run = signal<Run | null>(null);
  readonly error = signal<Error | null>(null);
  private readonly leaving = new AbortController();
  private readonly ends: (() => void)[] = [];
  private readonly events = new Map<number, EventView>();
  private series = new Map<string, Series>();
  private job: Job | null = null;

  constructor(
    readonly id: number,
    /** Maximum for each curve. */
    private readonly points: number,
  ) {}

  start(): void {
    const refresh = throttled(() => void this.refresh(), CURVES_SECONDS);
    const publish = throttled(() => this.publish(), 0.25);
    const take = (event: EventView): void => {
      if (event.job_id !== this.id) return;
      if (TYPES.includes(event.type)) this.events.set(event.id, event);
    };
    const stop = onEvent((event) => {
      take(event);
      if (event.job_id === this.id) refresh();
    });
    const past = (event: EventView): void => {
      take(event);
      publish();
    };
    this.ends.push(stop, onResume(refresh), refresh.cancel, publish.cancel);
    refresh();
    pastEvents(this.id, TYPES, past, this.leaving.signal).catch(() => {
      // Without them the curves have no times and no markers; the request for the job reports the error.
    });
  }

  stop(): void {
    this.leaving.abort();
    for (const end of this.ends) end();
  }

  async refresh(): Promise<void> {
    const path = { job: this.id };
    const { signal } = this.leaving;
    try {
      const job = await get("/v1/jobs/{job}", { path, signal });
      const { metrics, samples } = job.progress;
      const hasBegun = job.kind === "fit" && (metrics || samples); // there are curves after the first batch
      const names = hasBegun ? [...Object.keys(metrics ?? {}), RATE] : [];
      const found = await Promise.all(names.map((name) => this.fetchSeries(name)));
      this.job = job; // together with its curves, so that the screen does not flicker
      this.series = new Map(found.flatMap((one) => (one ? [[one.series, one]] : [])));
      this.error.value = null;
    } catch (error) {
      if (signal.aborted) return;
      this.error.value = error as Error;
    }
    this.publish();
  }

  private async fetchSeries(series: string): Promise<Series | null> {
    const query = { series, points: this.points };
    try {
      return (await get("/v1/jobs/{job}/metrics", { path: { job: this.id }, query, signal: this.leaving.signal })) as Series;
    } catch (error) {
      // The module, and its files with it, may have been deleted.
      if (error instanceof Refused && error.status === 404) return null;
      throw error;
    }
  }

  private publish(): void {
    if (!this.job || this.leaving.signal.aborted) return;
    const events = [...this.events.values()].sort((a, b) => a.id - b.id);
    this.run.value = { job: this.job, series: this.series, events };
  }
}

export function isLive(run: Run): boolean {
  return !isFinished(run.job);
}
