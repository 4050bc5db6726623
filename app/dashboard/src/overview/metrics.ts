/** The server's counters from `/metrics`, and their changes between two fetches. */

export interface Sample {
  labels: Record<string, string>;
  value: number;
}
export type Metrics = Map<string, Sample[]>;

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Metrics {
  const metrics: Metrics = new Map();
  for (const line of text.split("\n")) {
    const found = line.startsWith("#") ? null : LINE.exec(line);
    if (!found) continue;
    const [, name = "", labelText = "", value = ""] = found;
    const labels: Record<string, string> = {};
    for (const [, key = "", text = ""] of labelText.matchAll(LABEL)) labels[key] = text.replace(/\\(.)/g, "$1");
    const sample = { labels, value: value === "+Inf" ? Infinity : Number(value) };
    const samples = metrics.get(name);
    if (samples) samples.push(sample);
    else metrics.set(name, [sample]);
  }
  return metrics;
}

export type Where = (labels: Record<string, string>) => boolean;
const everywhere: Where = () => true;

export function total(metrics: Metrics, name: string, where: Where = everywhere): number {
  let sum = 0;
  for (const { labels, value } of metrics.get(name) ?? []) if (where(labels)) sum += value;
  return sum;
}

/** The growth of a counter; after a restart of the server it is counted from 0. */
export function grown(before: Metrics, now: Metrics, name: string, where: Where = everywhere): number {
  const [first, last] = [total(before, name, where), total(now, name, where)];
  return last >= first ? last - first : last;
}

/** The counts of a histogram between two fetches, by their upper bounds. */
function buckets(before: Metrics, now: Metrics, name: string, where: Where): [number, number][] {
  const sums = new Map<number, number>();
  const add = (metrics: Metrics, sign: number): void => {
    for (const { labels, value } of metrics.get(`${name}_bucket`) ?? []) {
      if (!where(labels)) continue;
      const bound = labels["le"] === "+Inf" ? Infinity : Number(labels["le"]);
      sums.set(bound, (sums.get(bound) ?? 0) + sign * value);
    }
  };
  add(now, 1);
  if (total(now, `${name}_count`, where) >= total(before, `${name}_count`, where)) add(before, -1);
  return [...sums].sort(([a], [b]) => a - b);
}

/** A quantile of a histogram between two fetches, interpolated linearly as by Prometheus; null if it counted nothing. */
export function quantile(before: Metrics, now: Metrics, name: string, q: number, where: Where = everywhere): number | null {
  const found = buckets(before, now, name, where);
  const all = found.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  let [lower, below] = [0, 0];
  for (const [bound, sum] of found) {
    if (sum >= q * all) {
      if (bound === Infinity) return lower;
      return sum === below ? bound : lower + ((bound - lower) * (q * all - below)) / (sum - below);
    }
    [lower, below] = [bound, sum];
  }
  return lower;
}
