/** The server's counters of the last minutes, as far as this page has fetched them. */
import { getText } from "../api/client";
import { grown, type Metrics, parseMetrics, quantile, total, type Where } from "./metrics";

interface Look {
  /** Seconds since 1970. */
  at: number;
  metrics: Metrics;
}

export interface Point {
  at: number;
  requests: number;
  predictions: number;
  p50: number | null;
  p95: number | null;
  p99: number | null;
  batch: number | null;
  queued: number | null;
  /** Answers of 5xx and of 4xx. */
  failed: number;
  refused: number;
}

export interface RouteRow {
  verb: string;
  route: string;
  /** Since the server started. */
  requests: number;
  /** Null after only one fetch. */
  rate: number | null;
  p50: number | null;
  p95: number | null;
  p99: number | null;
  refused: number;
  failed: number;
}

export interface ModuleRow {
  module: string;
  rate: number | null;
  batch: number | null;
  queued: number | null;
  failures: number;
}

export interface History {
  points: Point[];
  /** Over the last half minute. */
  now: Point | null;
  routes: RouteRow[];
  modules: ModuleRow[];
  jobs: Record<string, number>;
  seconds: number;
}

const KEEP_SECONDS = 330;
const WINDOW_SECONDS = 30;
const HTTP = "modserve_http_request";
const isPrediction: Where = ({ method, route = "" }) => method === "POST" && /\/(predict|infer)$/.test(route);
/** A stream takes as long as somebody follows it, which says nothing about the server. */
const isStream: Where = ({ route = "" }) => route.endsWith("/events");

const looks: Look[] = [];
let points: Point[] = [];

export async function lookAgain(signal: AbortSignal): Promise<History> {
  const metrics = parseMetrics(await getText("/metrics", { signal }));
  const look = { at: Date.now() / 1000, metrics };
  const last = looks.at(-1);
  if (last) points = [...points, pointOf(last, look)].filter((one) => one.at > look.at - KEEP_SECONDS);
  looks.push(look);
  while ((looks[1]?.at ?? Infinity) <= look.at - WINDOW_SECONDS) looks.shift();
  const first = looks[0] ?? look;
  const isFirst = first === look;
  return {
    points,
    now: isFirst ? null : pointOf(first, look),
    routes: routesOf(first, look),
    modules: modulesOf(first, look),
    jobs: Object.fromEntries((metrics.get("modserve_jobs") ?? []).map(({ labels, value }) => [labels["status"] ?? "", value])),
    seconds: look.at - first.at,
  };
}

function pointOf(before: Look, now: Look): Point {
  const [from, to] = [before.metrics, now.metrics];
  const seconds = now.at - before.at;
  const q = (part: number): number | null => quantile(from, to, `${HTTP}_seconds`, part, isPrediction);
  return {
    at: now.at,
    requests: grown(from, to, `${HTTP}s_total`) / seconds,
    predictions: grown(from, to, "modserve_predictions_total") / seconds,
    p50: q(0.5),
    p95: q(0.95),
    p99: q(0.99),
    batch: batchOf(from, to),
    queued: quantile(from, to, "modserve_prediction_queue_seconds", 0.95),
    failed: grown(from, to, `${HTTP}s_total`, ({ status = "" }) => status.startsWith("5")),
    refused: grown(from, to, `${HTTP}s_total`, ({ status = "" }) => status.startsWith("4")),
  };
}

const isLost: Where = ({ outcome }) => outcome === "failure";

function batchOf(from: Metrics, to: Metrics, where?: Where): number | null {
  const batches = grown(from, to, "modserve_prediction_batch_size_count", where);
  return batches > 0 ? grown(from, to, "modserve_prediction_batch_size_sum", where) / batches : null;
}

function routesOf(before: Look, now: Look): RouteRow[] {
  const [from, to] = [before.metrics, now.metrics];
  const seconds = now.at - before.at;
  const found = new Map<string, { verb: string; route: string }>();
  for (const { labels } of to.get(`${HTTP}s_total`) ?? []) {
    const { method: verb = "", route = "" } = labels;
    found.set(`${verb} ${route}`, { verb, route });
  }
  const rows = [...found.values()].map(({ verb, route }) => {
    const own: Where = (labels) => labels["method"] === verb && labels["route"] === route;
    const of = (digit: string): number =>
      total(to, `${HTTP}s_total`, (labels) => own(labels) && (labels["status"] ?? "").startsWith(digit));
    const q = (part: number): number | null => (isStream({ route }) ? null : quantile(from, to, `${HTTP}_seconds`, part, own));
    const rate = seconds > 0 ? grown(from, to, `${HTTP}s_total`, own) / seconds : null;
    const requests = total(to, `${HTTP}s_total`, own);
    return { verb, route, requests, rate, p50: q(0.5), p95: q(0.95), p99: q(0.99), refused: of("4"), failed: of("5") };
  });
  // By the total, so that the order rarely changes and rows do not jump.
  return rows.sort((a, b) => b.requests - a.requests || a.route.localeCompare(b.route));
}

function modulesOf(before: Look, now: Look): ModuleRow[] {
  const [from, to] = [before.metrics, now.metrics];
  const seconds = now.at - before.at;
  const names = new Set((to.get("modserve_predictions_total") ?? []).map(({ labels }) => labels["module"] ?? ""));
  return [...names].sort().map((module) => {
    const own: Where = (labels) => labels["module"] === module;
    return {
      module,
      rate: seconds > 0 ? grown(from, to, "modserve_predictions_total", own) / seconds : null,
      batch: batchOf(from, to, own),
      queued: quantile(from, to, "modserve_prediction_queue_seconds", 0.95, own),
      failures: total(to, "modserve_predictions_total", (labels) => own(labels) && isLost(labels)),
    };
  });
}
