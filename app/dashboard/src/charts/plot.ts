/** One uPlot, updated when its data changes. */
import uPlot from "uplot";
import "./plot.css";
import { colour } from "../shell/theme";
import type { Curve, Marker } from "./curves";

export interface Look {
  curves: Curve[];
  /** Their columns over common positions. */
  data: uPlot.AlignedData;
  markers: Marker[];
  isTime: boolean;
  isLog: boolean;
  /** The least upper end of the y axis, so that small fluctuations do not fill the plot. */
  leastTop: number;
  formatX: (x: number) => string;
  formatY: (y: number) => string;
  /** How much of the x axis is shown, up to the newest; 0 for all of it. */
  span: number;
  /** Plots of one group share the cursor. */
  group: string;
  onCursor: (index: number | null) => void;
}

const FAINT = 0.28;
const FONT = "12px system-ui, sans-serif";

export class Plot {
  readonly u: uPlot;
  private isZoomed = false;

  constructor(place: HTMLElement, private look: Look) {
    this.u = new uPlot(this.options(place), this.data(), place);
    this.u.over.addEventListener("dblclick", () => (this.isZoomed = false));
  }

  /** Show other values of the same structure. */
  update(look: Look): void {
    this.look = look;
    this.u.setData(this.data(), !this.isZoomed);
    if (this.isZoomed) this.u.redraw();
  }

  resize(width: number, height: number): void {
    if (width > 0) this.u.setSize({ width, height });
  }

  destroy(): void {
    this.u.destroy();
  }

  private data(): uPlot.AlignedData {
    const { data } = this.look;
    if (!this.look.isLog) return data;
    const [xs, ...columns] = data;
    // A logarithmic axis cannot show other numbers.
    const positive = (y: number | null | undefined): number | null | undefined => (y != null && y <= 0 ? null : y);
    return [xs, ...columns.map((column) => Array.from(column, positive))] as uPlot.AlignedData;
  }

  private options(place: HTMLElement): uPlot.Options {
    const { curves, isTime, isLog, group, span } = this.look;
    const line = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("ink-2"), font: FONT, grid: line, ticks: { ...line, size: 4 } };
    return {
      width: place.clientWidth,
      height: place.clientHeight,
      legend: { show: false },
      cursor: {
        sync: { key: group, setSeries: false },
        points: { size: 6 },
        drag: { x: true, y: false },
      },
      scales: {
        x: { time: isTime, ...(span > 0 ? { range: (_: uPlot, low: number, high: number) => this.window(low, high) } : {}) },
        y: isLog ? { distr: 3 } : { range: (_, low, high) => this.range(low, high) },
      },
      axes: [
        { ...axis, size: 28, gap: 4, ...(isTime ? { values: times, space: 72 } : {}) },
        { ...axis, size: 56, gap: 4, values: (_, splits) => splits.map((y) => (y == null ? "" : short(this.look.formatY(y)))) },
      ],
      series: [{}, ...curves.map((one) => series(one))],
      hooks: {
        setCursor: [(u) => this.look.onCursor(u.cursor.idx ?? null)],
        setSelect: [(u) => (this.isZoomed = u.select.width > 0)],
        draw: [(u) => this.drawMarkers(u)],
      },
    };
  }

  private window(low: number, high: number): uPlot.Range.MinMax {
    if (this.isZoomed) return [low, high];
    const newest = this.look.curves[0]?.xs.at(-1) ?? Date.now() / 1000;
    return [newest - this.look.span, newest];
  }

  private range(low: number | null, high: number | null): uPlot.Range.MinMax {
    if (low == null || high == null) return [0, this.look.leastTop];
    if (this.look.leastTop > 0) return [0, Math.max(high * 1.1, this.look.leastTop)];
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    return [low - room, high + room];
  }

  /** Checkpoints stand at the foot of the plot, the best one reaches to its top. */
  private drawMarkers(u: uPlot): void {
    const { ctx, bbox } = u;
    const size = 4 * devicePixelRatio;
    const fills = { best: colour("accent"), checkpoint: colour("ink-2") };
    ctx.save();
    for (const { x, kind } of this.look.markers) {
      const at = u.valToPos(x, "x", true);
      if (at < bbox.left || at > bbox.left + bbox.width) continue;
      const foot = bbox.top + bbox.height;
      ctx.fillStyle = ctx.strokeStyle = fills[kind];
      ctx.beginPath();
      ctx.moveTo(at - size, foot);
      ctx.lineTo(at + size, foot);
      ctx.lineTo(at, foot - 2 * size);
      ctx.fill();
      if (kind !== "best") continue;
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, foot);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    ctx.restore();
  }
}

function series(curve: Curve): uPlot.Series {
  const stroke = colour(`curve-${curve.colour}`);
  return {
    label: curve.label,
    stroke,
    width: curve.isFaint ? 1 : 1.5,
    alpha: curve.isFaint ? FAINT : 1,
    dash: curve.isDashed ? [6, 4] : [],
    points: { size: 6, fill: stroke, show: (u, index) => curve.hasPoints === true || isPoint(u.data[index] ?? []) },
  };
}

/** Whether there is only one value, through which no line can be drawn. */
function isPoint(ys: ArrayLike<number | null | undefined>): boolean {
  let found = 0;
  for (let at = 0; at < ys.length && found < 2; at += 1) if (ys[at] != null) found += 1;
  return found === 1;
}

function times(_: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  const isCoarse = step >= 60;
  return splits.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB").slice(0, isCoarse ? 5 : 8));
}

/** Drop trailing zeros, and the plus of an exponent, because the numbers at an axis are round. */
function short(text: string): string {
  return /^-?\d+\.\d+(e|$)/.test(text) ? text.replace(/\.?0+(e|$)/, "$1").replace("+", "") : text;
}
