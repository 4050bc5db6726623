/** The distribution of a weight's elements, or of its gradient's, over the batches of a run. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get, type Histograms, type Job } from "../api/client";
import { count, number } from "../format";
import { isFinished } from "../jobs/states";
import { usePolling } from "../live/resource";
import { colour, paint } from "../shell/theme";

const POINTS = 200;
const SECONDS = 5;
const [HEIGHT, MOST_ROWS] = [240, 100];

export function HistogramPanel({ job }: { job: Job }) {
  const array = useSignal<{ of: "parameter" | "gradient"; name: string | undefined }>({ of: "parameter", name: undefined });
  const { of, name } = array.value;
  const load = (signal: AbortSignal): Promise<Histograms> =>
    get("/v1/jobs/{job}/histograms", { path: { job: job.id }, query: { of, array: name, points: POINTS }, signal });
  const { data, error } = usePolling(load, isFinished(job) ? 3600 : SECONDS, [job.id, job.status, of, name]).state.value;
  const has = (kind: string): boolean => data?.arrays.some((one) => one.of === kind && one.name === data.array.name) ?? false;
  const names = [...new Set(data?.arrays.map((one) => one.name))];
  return (
    <figure class="panel chart block" aria-label="Weights and gradients">
      <header>
        <h2>Weights and gradients</h2>
        <span class="push row">
          {data && (
            <>
              <select class="small" aria-label="Parameter" value={data.array.name} onChange={(event) => (array.value = { of: "parameter", name: event.currentTarget.value })}>
                {names.map((one) => <option key={one}>{one}</option>)}
              </select>
              <button class="small" aria-pressed={data.array.of === "parameter"} onClick={() => (array.value = { of: "parameter", name: name ?? data.array.name })}>Values</button>
              <button class="small" aria-pressed={data.array.of === "gradient"} disabled={!has("gradient")} onClick={() => (array.value = { of: "gradient", name: name ?? data.array.name })}>Gradient</button>
            </>
          )}
        </span>
      </header>
      {data && data.total > 0 ? <Heat data={data} /> : <p class="empty">{error ? error.message : "The first histogram appears after the first monitored batch."}</p>}
    </figure>
  );
}

function Heat({ data }: { data: Histograms }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const at = useSignal<number | null>(null);
  const isTableOpen = useSignal(false);
  const [low, high] = [Math.min(...data.lows), Math.max(...data.highs)];
  const last = data.counts.length - 1;
  const shown = Math.min(at.value ?? last, last);
  const repaint = paint.value;
  useEffect(() => {
    if (!canvas.current) return;
    const box = canvas.current;
    const redraw = (): void => draw(box, data, low, high);
    const watch = new ResizeObserver(redraw);
    watch.observe(box);
    redraw();
    return () => watch.disconnect();
  }, [data, repaint]);
  const choose = (event: PointerEvent): void => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    at.value = Math.max(0, Math.min(last, Math.floor(((event.clientX - box.left) / box.width) * (last + 1))));
  };
  const place = (index: number): string => `epoch ${data.epochs[index]}, batch ${data.batches[index]}`;
  return (
    <>
      <div class="heat">
        <span class="axis"><span>{number(high)}</span><span>{number(low)}</span></span>
        <canvas ref={canvas} style={{ height: `${HEIGHT}px` }} role="img" aria-label={`${data.array.of} ${data.array.name}: the darker, the more elements; the table below has the values`} onPointerMove={choose} onPointerLeave={() => (at.value = null)} />
      </div>
      <div class="legend">
        <span>from <b>{number(data.lows[shown])}</b></span>
        <span>to <b>{number(data.highs[shown])}</b></span>
        <span>mode near <b>{number(mode(data, shown))}</b></span>
        {data.nonfinite.some(Boolean) && <span class="bad">NaN or infinite <b>{count(data.nonfinite[shown])}</b></span>}
        <span class="push">{place(shown)}</span>
      </div>
      <details onToggle={(event) => (isTableOpen.value = event.currentTarget.open)}>
        <summary>Table</summary>
        {isTableOpen.value && (
          <div class="scroll" tabIndex={0} role="region" aria-label="Histograms, table">
            <table>
              <caption class="visually-hidden">{data.array.of} {data.array.name}, newest first</caption>
              <thead><tr><th scope="col">Taken at</th>{["min", "mode near", "max", "not finite"].map((one) => <th scope="col" class="number" key={one}>{one}</th>)}</tr></thead>
              <tbody>
                {data.counts.map((_, index) => index).reverse().slice(0, MOST_ROWS).map((index) => (
                  <tr key={index}>
                    <td>{place(index)}</td>
                    {[data.lows[index], mode(data, index), data.highs[index]].map((one, column) => <td class="number" key={column}>{number(one)}</td>)}
                    <td class="number">{count(data.nonfinite[index])}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </details>
    </>
  );
}

/** The centre of the bin with the most elements. */
function mode(data: Histograms, index: number): number {
  const counts = data.counts[index] ?? [];
  const [low, high] = [data.lows[index] ?? 0, data.highs[index] ?? 0];
  return low + ((counts.indexOf(Math.max(...counts)) + 0.5) * (high - low)) / (counts.length || 1);
}

/** Draw a column for each histogram. A bin's opacity is the square root of its count relative to the fullest bin, so that sparse bins stay visible. */
function draw(canvas: HTMLCanvasElement, data: Histograms, low: number, high: number): void {
  const pen = canvas.getContext("2d");
  if (!pen) return;
  canvas.width = canvas.clientWidth * devicePixelRatio;
  canvas.height = canvas.clientHeight * devicePixelRatio;
  const { width, height } = canvas;
  const yOf = (value: number): number => (high === low ? height / 2 : ((high - value) / (high - low)) * height);
  const xOf = (index: number): number => Math.round((index * width) / data.counts.length);
  pen.fillStyle = colour("accent");
  data.counts.forEach((counts, index) => {
    const [from, to] = [data.lows[index] ?? 0, data.highs[index] ?? 0];
    const most = Math.max(...counts, 1);
    const step = (to - from) / counts.length;
    counts.forEach((many, bin) => {
      if (!many) return;
      const [top, bottom] = [Math.round(yOf(from + (bin + 1) * step)), Math.round(yOf(from + bin * step))];
      pen.globalAlpha = Math.max(0.06, Math.sqrt(many / most));
      pen.fillRect(xOf(index), top, xOf(index + 1) - xOf(index), Math.max(from === to ? devicePixelRatio : 0, bottom - top));
    });
  });
  pen.globalAlpha = 1;
  if (low < 0 && high > 0) {
    pen.fillStyle = colour("ink-2");
    pen.fillRect(0, Math.round(yOf(0)), width, devicePixelRatio);
  }
}
