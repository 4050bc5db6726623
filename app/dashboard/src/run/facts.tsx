/** The facts of a job. */
import type { Job } from "../api/client";
import { count, duration, moment, NONE, number, rate } from "../format";
import { secondsRun, secondsSinceBegin } from "../jobs/states";
import { Progress } from "../jobs/table";

export function Facts({ job }: { job: Job }) {
  const params = job.params as Record<string, unknown>;
  const optimizer = params["optimizer"] as { name: string; options: Record<string, unknown> } | null;
  const step = optimizer?.options["learning_rate"];
  const best = job.result?.["best"] as { checkpoint: string; metric: string; value: number | null } | null | undefined;
  const isRunning = job.status === "running";
  const facts: [string, string][] = [
    ["Dataset", String(params["dataset"] ?? NONE)],
    ["Batch size", String(params["batch_size"] ?? NONE)],
    ["Samples/s", rate(speedOf(job))],
    ["Samples", count(job.progress.samples)],
    ["Executor", job.executor ?? NONE],
    ["Started", moment(job.started_at)],
    isRunning ? ["Running for", duration(secondsSinceBegin(job))] : ["Ran for", duration(secondsRun(job))],
    ["Attempt", job.lost ? `${job.attempt}, ${job.lost} of ${job.max_attempts} lost in a row` : String(job.attempt || NONE)],
  ];
  if (job.kind === "fit") facts.splice(2, 0, ["Optimizer", optimizer ? `${optimizer.name}${step === undefined ? "" : `, learning rate ${String(step)}`}` : "the module's own"]);
  if (job.versions) facts.splice(3, 0, ["Versions", job.versions.first === job.versions.last ? String(job.versions.last) : `${job.versions.first} to ${job.versions.last}`]);
  if (isRunning) facts.push(["Remaining", duration(job.eta_seconds)]);
  if (best) facts.push(["Best", `checkpoint ${best.checkpoint}, ${best.metric} ${number(best.value)}`]);
  return (
    <section class="panel block" aria-label="Facts">
      <div class="inside stack">
        <Progress job={job} />
        <dl class="facts">
          {facts.map(([term, says]) => <div key={term}><dt>{term}</dt><dd>{says}</dd></div>)}
        </dl>
        {job.error && <p class="bad" role="alert">Failed ({String(job.error["code"])}): {String(job.error["message"])}</p>}
        {job.setback && !job.error && <p class="quiet">The previous attempt failed ({String(job.setback["code"])}): {String(job.setback["message"])}</p>}
        {job.kind !== "fit" && job.result && <Result of={job.result} />}
      </div>
    </section>
  );
}

/** The current speed, or that of the whole run if it has ended. */
function speedOf(job: Job): number | null | undefined {
  if (job.status === "running") return job.progress.samples_per_second;
  const { samples, seconds } = (job.result ?? {}) as { samples?: number; seconds?: number };
  return samples && seconds ? samples / seconds : null;
}

function Result({ of }: { of: Record<string, unknown> }) {
  const metrics = Object.entries((of["metrics"] as Record<string, number | null> | undefined) ?? {});
  const output = of["output"];
  return (
    <dl class="facts">
      {metrics.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{number(value)}</dd></div>)}
      {typeof output === "string" && <div><dt>Outputs are in dataset</dt><dd>{output}</dd></div>}
    </dl>
  );
}
