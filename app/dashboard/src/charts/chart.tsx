/** A chart with its legend, and its values as a table. */
import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { AlignedData } from "uplot";
import { paint } from "../shell/theme";
import { aligned, type Curve, type Marker } from "./curves";
import { type Look, Plot } from "./plot";
import { saveCsv, savePng } from "./save";

interface Props {
  title: string;
  xLabel: string;
  curves: Curve[];
  markers?: Marker[];
  isTime?: boolean;
  isLog?: boolean;
  leastTop?: number;
  span?: number;
  formatX: (x: number) => string;
  formatY: (y: number) => string;
  group: string;
  /** Shown while there is nothing to draw. */
  waiting: string;
  isTall?: boolean;
  canSave?: boolean;
  children?: ComponentChildren;
}

const MOST_ROWS = 200;

export function Chart(props: Props) {
  const { title, curves, isLog = false, isTime = false } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const cursor = useSignal<number | null>(null);
  const isTableOpen = useSignal(false);
  const data = useMemo(() => aligned(curves), [curves]);
  const look: Look = {
    curves,
    data,
    markers: props.markers ?? [],
    isTime,
    isLog,
    leastTop: props.leastTop ?? 0,
    span: props.span ?? 0,
    formatX: props.formatX,
    formatY: props.formatY,
    group: props.group,
    onCursor: (index) => (cursor.value = index),
  };
  const structure = JSON.stringify([isTime, isLog, curves.map((one) => [one.label, one.colour, one.isFaint, one.isDashed])]);
  const drawn = paint.value;
  // Other series or colours need a new plot; other values do not.
  useLayoutEffect(() => {
    if (!place.current) return;
    const made = (plot.current = new Plot(place.current, look));
    const box = place.current;
    const watch = new ResizeObserver(() => made.resize(box.clientWidth, box.clientHeight));
    watch.observe(box);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [structure, drawn]);
  useEffect(() => plot.current?.update(look), [curves, props.markers]);
  const isEmpty = curves.every((one) => one.xs.length === 0);
  const shown = curves.filter((one) => !one.isFaint);
  return (
    <figure class={`panel chart ${props.isTall ? "tall" : ""}`} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <span class="push row">{props.children}</span>
        {props.canSave && !isEmpty && (
          <span class="row">
            <button class="small plain" onClick={() => saveCsv(title, props.xLabel, curves)}>CSV</button>
            <button class="small plain" onClick={() => plot.current && savePng(title, title, plot.current.u.ctx.canvas, curves)}>PNG</button>
          </span>
        )}
      </header>
      <div class="plot">
        <div ref={place} style={{ height: "100%" }} role="img" aria-label={`${title}: curves of ${shown.map((one) => one.label).join(", ")}; the table below has the values`} />
        {isEmpty && <p class="waiting">{props.waiting}</p>}
      </div>
      <Legend curves={curves} data={data} cursor={cursor} format={props.formatY} formatX={props.formatX} />
      <details onToggle={(event) => (isTableOpen.value = event.currentTarget.open)}>
        <summary>Table</summary>
        {isTableOpen.value && <Table {...props} curves={shown} />}
      </details>
    </figure>
  );
}

/** A component of its own, so that only the legend is rendered again when the cursor moves. */
function Legend(props: { curves: Curve[]; data: AlignedData; cursor: Signal<number | null>; format: (y: number) => string; formatX: (x: number) => string }) {
  const { data } = props;
  const at = props.cursor.value;
  const x = at === null ? undefined : data[0][at];
  const says = (index: number): string => {
    const y = at === null ? lastOf(props.curves[index]?.ys ?? []) : near(data[index + 1] ?? [], at);
    return y == null ? "–" : props.format(y);
  };
  const isOneSmoothed = props.curves.filter((one) => one.isFaint).length === 1;
  return (
    <div class="legend">
      {props.curves.map((one, index) => {
        if (one.isFaint) return null;
        return (
          <span key={one.label}>
            <i class={`key curve-${one.colour} ${one.isDashed ? "dashed" : ""}`} />
            {one.label} <b>{says(index)}</b>
            {isOneSmoothed && props.curves[index - 1]?.isFaint && <>raw <b>{says(index - 1)}</b></>}
          </span>
        );
      })}
      <span class="push">{x === undefined ? "newest" : props.formatX(x)}</span>
    </div>
  );
}

function lastOf(ys: (number | null)[]): number | null {
  for (let at = ys.length - 1; at >= 0; at -= 1) if (ys[at] != null) return ys[at] ?? null;
  return null;
}

/** The value at a position, or the last one before it, because curves differ in their positions. */
function near(column: ArrayLike<number | null | undefined>, at: number): number | null {
  for (let one = at; one >= 0; one -= 1) {
    const y = column[one];
    if (y != null) return y;
  }
  return null;
}

function Table(props: Props) {
  const [xs, ...columns] = aligned(props.curves);
  const step = Math.max(1, Math.ceil(xs.length / MOST_ROWS));
  const rows = Array.from(xs.keys()).filter((at) => (xs.length - 1 - at) % step === 0).reverse();
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${props.title}, table`}>
      <table>
        <caption class="visually-hidden">{props.title}, newest first{step > 1 ? `, one of ${step}` : ""}</caption>
        <thead>
          <tr><th scope="col">{props.xLabel}</th>{props.curves.map((one) => <th scope="col" class="number" key={one.label}>{one.label}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((at) => (
            <tr key={xs[at]}>
              <td>{props.formatX(xs[at] ?? 0)}</td>
              {columns.map((column, index) => {
                const y = column[at];
                return <td class="number" key={index}>{y == null ? "" : props.formatY(y)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
