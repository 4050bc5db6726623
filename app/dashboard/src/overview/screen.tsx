/** The state of the server at a glance. */
import { useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { Job, Status } from "../api/client";
import { Chart } from "../charts/chart";
import type { Curve } from "../charts/curves";
import { clock, latency, rate } from "../format";
import { JobTable } from "../jobs/table";
import { useRefreshOn } from "../live/refresh";
import { usePolling } from "../live/resource";
import { Missing, Stale } from "../parts/stale";
import { link } from "../router";
import { Executors } from "./executors";
import { lookAgain, type Point } from "./history";
import { Stats } from "./stats";
import { Modules, Routes } from "./tables";

const SPAN_SECONDS = 300;
const ACTIVE = "running,queued,paused";

export function OverviewScreen() {
  document.title = "Overview · modserve";
  const status = usePolling(readiness, 5).state.value;
  const executors = usePolling(async (signal) => (await get("/v1/executors", { signal })).items, 3).state.value;
  const history = usePolling(lookAgain, 2).state.value;
  const jobs = useActiveJobs();
  const points = history.data?.points ?? [];
  const at = useMemo(() => points.map((one) => one.at), [points]);
  const curve = (label: string, colour: number, value: (one: Point) => number | null): Curve => ({ label, colour, xs: at, ys: points.map(value) });
  const load = useMemo(() => [curve("requests", 1, (one) => one.requests), curve("predictions", 2, (one) => one.predictions)], [points]);
  const times = useMemo(() => [curve("p50", 1, (one) => one.p50), curve("p95", 5, (one) => one.p95), curve("p99", 4, (one) => one.p99)], [points]);
  const formatX = (x: number): string => clock(x * 1000);
  // Rendered once everything is loaded or has failed, so that nothing moves afterwards.
  if (![status, executors, history, jobs].every((one) => one.data || one.error)) {
    return <><div class="title"><h1>Overview</h1></div><p class="empty">Loading …</p></>;
  }
  return (
    <>
      <div class="title"><h1>Overview</h1><Stale of={status} what="Health" /></div>
      <Stats status={status} history={history} />
      {status.data?.warnings?.length ? <Warnings of={status.data.warnings} /> : null}
      <div class="grid-2">
        <Chart title="Requests per second" xLabel="time" curves={load} isTime span={SPAN_SECONDS} leastTop={1} formatX={formatX} formatY={rate} group="overview" waiting="Measuring, from when this page was opened." />
        <Chart title="Prediction latency" xLabel="time" curves={times} isTime span={SPAN_SECONDS} leastTop={0.001} formatX={formatX} formatY={latency} group="overview" waiting="Measuring, from when this page was opened." />
      </div>
      <section class="panel block" aria-labelledby="active">
        <header><h2 id="active">Unfinished jobs</h2><Stale of={jobs} what="Jobs" /><a class="push" href={link(["jobs"])}>All jobs</a></header>
        {jobs.data ? <Active jobs={jobs.data} /> : <Missing of={jobs} what="Jobs" />}
      </section>
      <div class="grid-2">
        <Executors executors={executors} />
        <Modules history={history} />
      </div>
      <Routes history={history} />
    </>
  );
}

function Active({ jobs }: { jobs: Job[] }) {
  if (jobs.length === 0) return <p class="empty">No job is running or waiting.</p>;
  return <JobTable jobs={jobs} />;
}

function Warnings({ of }: { of: string[] }) {
  return (
    <section class="panel block" aria-labelledby="warnings">
      <header><h2 id="warnings">Warnings</h2></header>
      <ul class="inside stack">{of.map((one) => <li key={one}>{one}</li>)}</ul>
    </section>
  );
}

function useActiveJobs() {
  const resource = usePolling(async (signal) => (await get("/v1/jobs", { query: { status: ACTIVE, limit: 20 }, signal })).items, 10);
  useRefreshOn(resource, (event) => event.job_id !== null);
  return resource.state.value;
}

/** A server that is not ready answers 503 with the details. */
async function readiness(signal: AbortSignal): Promise<Status> {
  return get("/readyz", { signal, accepted: [503] });
}
