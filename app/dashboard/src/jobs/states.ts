/** How a job's state is shown, and the actions that it allows. */
import type { Job } from "../api/client";
import type { Tone } from "../parts/state";

export const STATUSES = ["queued", "running", "paused", "succeeded", "failed", "cancelled"] as const;
export const KINDS = ["fit", "score", "predict"] as const;

export type Action = "pause" | "resume" | "cancel" | "retry" | "delete";

const TONES: Record<string, Tone> = {
  queued: "idle",
  running: "active",
  paused: "warn",
  succeeded: "good",
  failed: "bad",
  cancelled: "idle",
};

export function toneOf(job: Job): Tone {
  return TONES[job.status] ?? "idle";
}

/** The state in words, including actions that were requested and are not carried out yet. */
export function stateOf(job: Job): string {
  if (job.status === "running" && job.requested === "pause") return "pausing";
  if (job.status === "running" && job.requested === "cancel") return "cancelling";
  return job.status;
}

export function isFinished(job: Job): boolean {
  return job.status === "succeeded" || job.status === "failed" || job.status === "cancelled";
}

export function actionsOf(job: Job): Action[] {
  switch (job.status) {
    case "queued":
      return ["pause", "cancel"];
    case "running":
      if (job.requested === "cancel") return [];
      return job.requested === "pause" ? ["resume", "cancel"] : ["pause", "cancel"];
    case "paused":
      return ["resume", "cancel"];
    case "succeeded":
      return ["delete"];
    default:
      return ["retry", "delete"];
  }
}

/** The epoch at which a job begins: a fit goes on counting from the one before. */
export function firstEpoch(job: Job): number {
  return job.versions ? job.versions.first - 1 : 0;
}

/** The share of a job that is done, from 0 to 1; null if unknown. */
export function partDone(job: Job): number | null {
  if (job.status === "succeeded") return 1;
  const { epoch, epochs, batch, batches } = job.progress;
  if (epoch == null || !epochs) return null;
  const within = batches ? Math.min(1, (batch ?? 0) / batches) : 0;
  const first = firstEpoch(job);
  return Math.min(1, (epoch - first + within) / (epochs - first));
}

/** The total running time of a job that is not running now. */
export function secondsRun(job: Job): number | null {
  return job.started_at ? job.ran_seconds : null;
}

/** The time since a job's first attempt began. */
export function secondsSinceBegin(job: Job): number | null {
  return job.started_at ? (Date.now() - Date.parse(job.started_at)) / 1000 : null;
}
