/** The figures at the head of the overview. */
import type { ComponentChildren } from "preact";
import type { Status } from "../api/client";
import { count, latency, NONE, number, plural, rate } from "../format";
import type { Loaded } from "../live/resource";
import { State } from "../parts/state";
import type { History } from "./history";

export function Stats({ status, history }: { status: Loaded<Status>; history: Loaded<History> }) {
  const now = history.data?.now ?? null;
  const jobs = history.data?.jobs ?? {};
  const over = `over ${Math.round(history.data?.seconds ?? 0)} s`;
  return (
    <section class="stats" aria-label="Figures">
      <Stat name="Health" note={healthNote(status)}>{health(status)}</Stat>
      <Stat name="Running jobs" note={`${count(jobs["queued"])} queued, ${count(jobs["paused"])} paused`}>{count(jobs["running"])}</Stat>
      <Stat name="Requests/s" note={now ? over : "measuring"}>{rate(now?.requests)}</Stat>
      <Stat name="Predictions/s" note={now?.batch ? `${number(now.batch)} examples a batch` : "no batches"}>{rate(now?.predictions)}</Stat>
      <Stat name="Prediction p50" note={`p95 ${latency(now?.p95)}, p99 ${latency(now?.p99)}`}>{latency(now?.p50)}</Stat>
      <Stat name="Batch wait p95" note="before it is computed">{latency(now?.queued)}</Stat>
      <Stat name="Failed requests" note={now ? `${count(now.refused)} refused, ${over}` : "measuring"}>
        <span class={now && now.failed > 0 ? "bad" : ""}>{count(now?.failed)}</span>
      </Stat>
    </section>
  );
}

function Stat({ name, note, children }: { name: string; note: string; children: ComponentChildren }) {
  return (
    <div class="stat">
      <h3>{name}</h3>
      <div class="value">{children}</div>
      <div class="note" title={note}>{note}</div>
    </div>
  );
}

function health({ data, error }: Loaded<Status>): ComponentChildren {
  if (error) return <State tone="bad">unknown</State>;
  if (!data) return NONE;
  if (data.status !== "ready") return <State tone="bad">{data.status}</State>;
  return data.warnings?.length ? <State tone="warn">ready</State> : <State tone="good">ready</State>;
}

function healthNote({ data, error }: Loaded<Status>): string {
  if (error) return error.message;
  if (!data) return "asking";
  const states = Object.values(data.executors ?? {});
  const ready = states.filter((one) => one === "ready").length;
  const warnings = data.warnings?.length ?? 0;
  return warnings ? plural(warnings, "warning") : `${ready} of ${plural(states.length, "executor")} ready`;
}
