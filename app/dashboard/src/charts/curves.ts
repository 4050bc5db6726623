/** What is drawn: curves over common positions. */
import uPlot from "uplot";

export interface Curve {
  label: string;
  /** One of eight colours, from 1. */
  colour: number;
  xs: number[];
  ys: (number | null)[];
  /** The raw values of a smoothed curve: drawn behind it, and not in the legend. */
  isFaint?: boolean;
  isDashed?: boolean;
  hasPoints?: boolean;
  /** Whether it has a value for every batch, and is therefore smoothed. */
  isNoisy?: boolean;
}

export interface Marker {
  x: number;
  kind: "checkpoint" | "best";
}

/** Columns over the union of all positions; undefined where a curve has none there. */
export function aligned(curves: Curve[]): uPlot.AlignedData {
  const tables: [number[], ...(number | null)[][]][] = [];
  for (const { xs, ys } of curves) {
    const last = tables.at(-1);
    if (last?.[0] === xs) last.push(ys);
    else tables.push([xs, ys]);
  }
  return tables.length > 1 ? uPlot.join(tables) : (tables[0] ?? [[]]);
}

/** An exponential moving average, with the bias correction of Adam (Kingma and Ba, 2014). */
export function smoothed(ys: (number | null)[], weight: number): (number | null)[] {
  let [sum, norm] = [0, 0];
  return ys.map((y) => {
    if (y === null) return null;
    sum = sum * weight + (1 - weight) * y;
    norm = norm * weight + (1 - weight);
    return sum / norm;
  });
}
