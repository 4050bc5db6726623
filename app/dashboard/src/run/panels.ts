/** The curves of each metric, of all runs shown. */
import { type Curve, type Marker, smoothed } from "../charts/curves";
import { Axis, type AxisKind, numberOf } from "./axes";
import { RATE, type Run } from "./data";

export const SPEED = "samples per second";

export interface Panel {
  name: string;
  curves: Curve[];
}

export interface Shown {
  run: Run;
  colour: number;
}

export function panelsOf(shown: Shown[], kind: AxisKind): Panel[] {
  const panels = new Map<string, Curve[]>();
  for (const one of shown) {
    const axis = new Axis(one.run, kind);
    const add = (name: string, curve: Curve): void => {
      panels.set(name, [...(panels.get(name) ?? []), curve]);
    };
    const label = shown.length > 1 ? `job ${one.run.job.id}` : "training";
    for (const [name, series] of one.run.series) {
      const base = { label, colour: one.colour, xs: axis.of(series) };
      add(name === RATE ? "learning rate" : name, { ...base, ys: series.values, isNoisy: name !== RATE });
    }
    for (const [name, curve] of validation(one, axis, shown.length > 1)) add(name, curve);
    // Added even before the first report, so that nothing below moves when it arrives.
    if (one.run.series.size > 0) add(SPEED, speedOf(one, axis, label));
  }
  return [...panels].map(([name, curves]) => ({ name, curves }));
}

/** Draw noisy curves twice: smoothed, and faintly as they are. Panels without such curves are unchanged. */
export function smoothedPanels(panels: Panel[], weight: number): Panel[] {
  if (weight === 0) return panels;
  return panels.map((panel) => {
    if (!panel.curves.some((one) => one.isNoisy)) return panel;
    const curves = panel.curves.flatMap((one) => (one.isNoisy ? [{ ...one, isFaint: true }, { ...one, ys: smoothed(one.ys, weight) }] : [one]));
    return { ...panel, curves };
  });
}

function validation({ run, colour }: Shown, axis: Axis, isOneOfMany: boolean): Map<string, Curve> {
  const values = new Map<string, Map<number, number | null>>();
  for (const event of run.events) {
    if (event.type !== "metric" || event.data["part"] !== "validation") continue;
    for (const [name, value] of Object.entries(event.data["metrics"] as Record<string, number | null>)) {
      const of = values.get(name) ?? new Map<number, number | null>();
      of.set(numberOf(event, "epoch"), value); // that of a later attempt replaces it
      values.set(name, of);
    }
  }
  const label = isOneOfMany ? `job ${run.job.id}, validation` : "validation";
  const look = { label, colour: isOneOfMany ? colour : 2, isDashed: true, hasPoints: true };
  return new Map(
    [...values].map(([name, of]) => {
      const epochs = [...of.keys()].sort((a, b) => a - b);
      return [name, { ...look, xs: epochs.map((epoch) => axis.endOf(epoch)), ys: epochs.map((epoch) => of.get(epoch) ?? null) }];
    }),
  );
}

function speedOf({ run, colour }: Shown, axis: Axis, label: string): Curve {
  const points = new Map<number, number>();
  for (const event of run.events) {
    const speed = event.data["samples_per_second"];
    if (event.type === "progress" && typeof speed === "number") {
      points.set(axis.at(numberOf(event, "epoch"), numberOf(event, "batch")), speed);
    }
  }
  const xs = [...points.keys()].sort((a, b) => a - b);
  return { label: label === "training" ? "samples/s" : label, colour, xs, ys: xs.map((x) => points.get(x) ?? null) };
}

/** Markers of the checkpoints of a run; those of several runs could not be told apart. */
export function markersOf(run: Run, kind: AxisKind): Marker[] {
  const axis = new Axis(run, kind);
  const best = (run.job.result?.["best"] as { checkpoint?: string } | null | undefined)?.checkpoint;
  return run.events
    .filter((event) => event.type === "checkpoint")
    .map((event) => {
      const [epoch, batch] = [numberOf(event, "epoch"), numberOf(event, "batch")];
      return { x: axis.at(epoch, batch), kind: best === String(epoch) && batch === 0 ? "best" : "checkpoint" };
    });
}
