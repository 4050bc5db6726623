/** Jobs as rows, each with its actions and its log. */
import { useSignal } from "@preact/signals";
import type { Job } from "../api/client";
import { duration, moment, NONE, number, percent } from "../format";
import { Meter } from "../parts/meter";
import { State } from "../parts/state";
import { link } from "../router";
import { Actions } from "./actions";
import { Log } from "./log";
import { partDone, secondsRun, stateOf, toneOf } from "./states";

const COLUMNS = 9;

export function JobTable({ jobs, onChange = () => {} }: { jobs: Job[]; onChange?: () => void }) {
  const fault = useSignal("");
  const opened = useSignal<ReadonlySet<number>>(new Set());
  const toggle = (id: number): void => {
    const next = new Set(opened.value);
    if (!next.delete(id)) next.add(id);
    opened.value = next;
  };
  return (
    <>
      {fault.value && <p class="inside bad" role="alert">{fault}</p>}
      <div class="scroll" tabIndex={0} role="region" aria-label="Jobs">
        <table class="jobs">
          <thead>
            <tr>
              <th scope="col" class="number">Job</th>
              <th scope="col">Module</th>
              <th scope="col">Kind</th>
              <th scope="col">State</th>
              <th scope="col" class="progress">Progress</th>
              <th scope="col">Metrics</th>
              <th scope="col" class="number">ETA / ran</th>
              <th scope="col">Created</th>
              <th scope="col"><span class="visually-hidden">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            {jobs.map((job) => (
              <Row key={job.id} job={job} isOpen={opened.value.has(job.id)} onToggle={() => toggle(job.id)} onFault={(text) => (fault.value = text)} onDeleted={onChange} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

interface RowProps {
  job: Job;
  isOpen: boolean;
  onToggle: () => void;
  onFault: (text: string) => void;
  onDeleted: () => void;
}

function Row({ job, isOpen, onToggle, onFault, onDeleted }: RowProps) {
  return (
    <>
      <tr>
        <td class="number"><a href={link(["jobs", job.id])}>{job.id}</a></td>
        <td class="name" title={job.module}><a href={link(["modules", job.module])}>{job.module}</a></td>
        <td>{job.kind}</td>
        <td class="status"><State tone={toneOf(job)}>{stateOf(job)}</State></td>
        <td class="progress"><Progress job={job} /></td>
        <td class="metrics"><Metrics job={job} /></td>
        <td class="number time">{timeOf(job)}</td>
        <td class="begun">{moment(job.created_at)}</td>
        <td class="buttons">
          <span class="row">
            <button class="small plain" aria-expanded={isOpen} aria-label={`Log of job ${job.id}`} onClick={onToggle}>Log</button>
            <Actions job={job} onFault={onFault} onDeleted={onDeleted} />
          </span>
        </td>
      </tr>
      {isOpen && <tr><td colSpan={COLUMNS} class="opened"><Log job={job.id} /></td></tr>}
    </>
  );
}

export function Progress({ job }: { job: Job }) {
  const part = partDone(job);
  const { epoch, epochs, batch, batches } = job.progress;
  const where = epochs == null || epoch == null ? "no report yet" : `epoch ${Math.min(epoch + 1, epochs)}/${epochs}${batches && job.status !== "succeeded" ? `, batch ${batch ?? 0}/${batches}` : ""}`;
  return (
    <div>
      <Meter part={part ?? 0} label={`Job ${job.id} is ${percent(part ?? 0)} done`} isIdle={job.status !== "running"} />
      <div class="where">{job.queue_position ? `place ${job.queue_position} in the queue` : where}</div>
    </div>
  );
}

function Metrics({ job }: { job: Job }) {
  const train = (job.result?.["train"] ?? job.result?.["metrics"] ?? job.progress.metrics) as Record<string, number | null> | undefined;
  const shown = Object.entries(train ?? {}).slice(0, 3);
  if (job.status === "failed" && job.error) return <span class="bad why" title={String(job.error["message"])}>{String(job.error["message"])}</span>;
  return <>{shown.map(([name, value]) => <span class="metric" key={name}>{name} <b>{number(value)}</b></span>)}</>;
}

function timeOf(job: Job): string {
  if (job.status === "running") return job.eta_seconds == null ? NONE : `${duration(job.eta_seconds)} left`;
  if (job.status === "queued") return job.eta_seconds == null ? NONE : `about ${duration(job.eta_seconds)}`;
  return duration(secondsRun(job));
}
