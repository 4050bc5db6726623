/** The position of a batch of a run on the x axis: by its number, its epoch, or the elapsed time. */
import type { EventView, Series } from "../api/client";
import { firstEpoch } from "../jobs/states";
import type { Run } from "./data";

export type AxisKind = "step" | "epoch" | "time";

export class Axis {
  private readonly perEpoch: number;
  private readonly first: number;
  /** [step, seconds since the run began], ascending. */
  private readonly times: [number, number][];

  constructor(
    run: Run,
    readonly kind: AxisKind,
  ) {
    this.perEpoch = batchesOf(run);
    this.first = firstEpoch(run.job);
    this.times = kind === "time" ? timesOf(run, this.perEpoch) : [];
  }

  of(series: Series): number[] {
    if (this.kind === "step") return series.steps;
    if (this.kind === "time") return series.steps.map((step) => this.seconds(step + 1));
    return series.epochs.map((epoch, at) => epoch + ((series.batches[at] ?? 0) + 1) / this.perEpoch);
  }

  /** The position after this many batches of an epoch. */
  at(epoch: number, batch: number): number {
    const step = (epoch - this.first) * this.perEpoch + batch;
    if (this.kind === "step") return Math.max(0, step - 1);
    return this.kind === "epoch" ? epoch + batch / this.perEpoch : this.seconds(step);
  }

  endOf(epoch: number): number {
    return this.at(epoch, this.perEpoch);
  }

  /** The time at a step, interpolated linearly between two reports. */
  private seconds(step: number): number {
    let [low, high] = [0, this.times.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.times[middle]?.[0] ?? 0) < step) low = middle + 1;
      else high = middle;
    }
    const [s1, t1] = this.times[low] ?? [0, 0];
    const [s0, t0] = this.times[low - 1] ?? [0, 0];
    return s1 === s0 ? t1 : t0 + ((t1 - t0) * (step - s0)) / (s1 - s0);
  }
}

function batchesOf(run: Run): number {
  if (run.job.progress.batches) return run.job.progress.batches;
  let most = 0;
  for (const { batches } of run.series.values()) for (const one of batches) most = Math.max(most, one);
  return most + 1;
}

function timesOf(run: Run, perEpoch: number): [number, number][] {
  const began = Date.parse(run.job.started_at ?? run.job.created_at);
  const times: [number, number][] = [];
  const first = firstEpoch(run.job);
  for (const { type, data, created_at } of run.events) {
    if (type !== "progress") continue;
    const step = (Number(data["epoch"]) - first) * perEpoch + Number(data["batch"]);
    while ((times.at(-1)?.[0] ?? -1) >= step) times.pop(); // repeated by a later attempt
    times.push([step, (Date.parse(created_at) - began) / 1000]);
  }
  return times;
}

export function numberOf(event: EventView, name: string): number {
  return Number(event.data[name] ?? 0);
}
