/** One run, live: its state, its curves, optionally beside those of others, and its log. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Chart } from "../charts/chart";
import type { Marker } from "../charts/curves";
import { duration, number, rate } from "../format";
import { Actions } from "../jobs/actions";
import { Log } from "../jobs/log";
import { stateOf, toneOf } from "../jobs/states";
import { State } from "../parts/state";
import { go, link, place, replaceQuery } from "../router";
import type { AxisKind } from "./axes";
import { Controls } from "./controls";
import { RunFeed } from "./data";
import { Facts } from "./facts";
import { HistogramPanel } from "./histograms";
import { markersOf, panelsOf, type Shown, smoothedPanels, SPEED } from "./panels";

const MOST_RUNS = 8;
/** Maximum number of points of a curve, about as many as a chart has pixels; half for each of several runs. */
const POINTS = 2000;
const NO_MARKERS: Marker[] = [];

export function RunScreen({ id }: { id: number }) {
  document.title = `Job ${id} · modserve`;
  const { query } = place.value;
  const others = (query.get("with") ?? "").split(",").map(Number).filter((one) => one > 0 && one !== id).slice(0, MOST_RUNS - 1);
  const feeds = useFeeds([id, ...others]);
  const kind = (["step", "epoch", "time"] as AxisKind[]).find((one) => one === query.get("x")) ?? "step";
  const weight = Math.min(0.99, Math.max(0, Number(query.get("smooth") ?? 0.6) || 0));
  const isLog = query.get("log") === "1";
  const fault = useSignal("");
  const [main] = feeds;
  const run = main?.run.value ?? null;
  const shown: Shown[] = feeds.flatMap((feed, at) => (feed.run.value ? [{ run: feed.run.value, colour: at + 1 }] : []));
  const runs = shown.map((one) => one.run);
  const raw = useMemo(() => panelsOf(shown, kind), [...padded(runs), kind]);
  const panels = useMemo(() => smoothedPanels(raw, weight), [raw, weight]);
  const markers = useMemo(() => (run && shown.length === 1 ? markersOf(run, kind) : []), [run, kind, shown.length]);
  const error = main?.error.value;
  if (!run) return error ? <p class="empty bad" role="alert">{error.message}. <a href={link(["jobs"])}>All jobs</a></p> : <p key="loading" class="empty">Loading job {id} …</p>;
  const formatX = kind === "time" ? duration : kind === "epoch" ? (x: number) => `epoch ${x.toFixed(2)}` : (x: number) => `batch ${x + 1}`;
  const { job } = run;
  return (
    <>
      <div class="title">
        <h1>Job {id}: {job.kind} of <a href={link(["modules", job.module])}>{job.module}</a></h1>
        <State tone={toneOf(job)}>{stateOf(job)}</State>
        {error && <span class="quiet" role="status">The newest figures are missing: {error.message}</span>}
        <span class="push"><Actions job={job} onFault={(text) => (fault.value = text)} onDeleted={() => go(link(["jobs"]))} /></span>
      </div>
      {fault.value && <p class="bad block" role="alert">{fault}</p>}
      <Facts job={job} />
      {job.kind === "fit" && <Controls id={id} others={others} most={MOST_RUNS} kind={kind} weight={weight} isLog={isLog} feeds={feeds} onChange={replaceQuery} />}
      {panels.length === 0 ? job.kind === "fit" && <p class="panel empty block">The curves begin with the first report of the run.</p> : (
        <div class="grid-2">
          {panels.map(({ name, curves }) => (
            <Chart
              key={name}
              title={name}
              xLabel={kind}
              curves={curves}
              markers={name === SPEED ? NO_MARKERS : markers}
              isLog={isLog && name !== SPEED}
              formatX={formatX}
              formatY={name === SPEED ? rate : number}
              group="run"
              waiting="No values yet"
              isTall
              canSave
            />
          ))}
        </div>
      )}
      {panels.length > 0 && <p key="hint" class="quiet block">{shown.length === 1 ? "▲ is a checkpoint; the best one has a line to the top. " : ""}Drag over a chart to zoom in, double-click to zoom out.</p>}
      {job.kind === "fit" && "monitor" in job.params && job.params.monitor && <HistogramPanel job={job} />}
      <section class="panel tall-log" aria-labelledby="log">
        <header><h2 id="log">Log</h2></header>
        <Log job={id} />
      </section>
    </>
  );
}

/** Hooks need lists of dependencies of constant length. */
function padded<T>(items: T[]): (T | null)[] {
  return Array.from({ length: MOST_RUNS }, (_, at) => items[at] ?? null);
}

function useFeeds(ids: number[]): RunFeed[] {
  const feeds = useMemo(() => new Map<number, RunFeed>(), []);
  for (const id of ids) {
    if (feeds.has(id)) continue;
    const feed = new RunFeed(id, ids.length > 1 ? POINTS / 2 : POINTS);
    feeds.set(id, feed);
    feed.start();
  }
  useEffect(() => {
    for (const [id, feed] of feeds) {
      if (ids.includes(id)) continue;
      feed.stop();
      feeds.delete(id);
    }
  }, [ids.join(",")]);
  useEffect(() => () => feeds.forEach((feed) => feed.stop()), []);
  return ids.flatMap((id) => feeds.get(id) ?? []);
}
