/** What is drawn: curves over common positions. */
import uPlot from "uplot";

export interface Curve {
  label: string;
  /** One of eight, from 1. */
  colour: number;
  xs: number[];
  ys: (number | null)[];
  /** What another curve is the smoothed form of: behind it, and not in the legend. */
  isFaint?: boolean;
  isDashed?: boolean;
  hasPoints?: boolean;
}

export interface Marker {
  x: number;
  kind: "checkpoint" | "best";
}

/** Columns over the union of all positions; undefined where a curve has none there. */
export function aligned(curves: Curve[]): uPlot.AlignedData {
  if (curves.length === 0) return [[]];
  const first = curves[0];
  if (first && curves.every((one) => one.xs === first.xs)) return [first.xs, ...curves.map((one) => one.ys)];
  return uPlot.join(curves.map((one) => [one.xs, one.ys] as uPlot.AlignedData));
}

/** An exponential moving average, without the bias to where it began. */
export function smoothed(ys: (number | null)[], weight: number): (number | null)[] {
  let [sum, norm] = [0, 0];
  return ys.map((y) => {
    if (y === null) return null;
    sum = sum * weight + (1 - weight) * y;
    norm = norm * weight + (1 - weight);
    return sum / norm;
  });
}
