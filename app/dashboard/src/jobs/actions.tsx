/** Buttons for the actions on a job; those that cannot be undone ask for confirmation. */
import { useSignal } from "@preact/signals";
import { type Job, post, remove } from "../api/client";
import { mayTrain } from "../api/session";
import { Confirm } from "../parts/confirm";
import { type Action, actionsOf } from "./states";

const SAYS: Record<Action, string> = { pause: "Pause", resume: "Resume", cancel: "Cancel", retry: "Retry", delete: "Delete" };
const WARNS: Partial<Record<Action, string>> = {
  cancel: "It stops after the current batch. Its checkpoints stay; a retry continues from the newest.",
  delete: "Its events, metrics and log are removed for good. Its checkpoints stay.",
};

async function ask(job: Job, action: Action): Promise<void> {
  const path = { job: job.id };
  if (action === "delete") await remove("/v1/jobs/{job}", { path });
  else await post(`/v1/jobs/{job}/${action}`, { path });
}

export function Actions({ job, onDeleted = () => {}, onFault }: { job: Job; onDeleted?: () => void; onFault: (text: string) => void }) {
  const asking = useSignal<Action | null>(null);
  const doubtful = useSignal<Action | null>(null);
  const run = async (action: Action): Promise<void> => {
    asking.value = action;
    onFault("");
    try {
      await ask(job, action);
      if (action === "delete") onDeleted();
    } catch (error) {
      onFault(`Job ${job.id}: ${(error as Error).message}`);
    }
    asking.value = null;
  };
  const choose = (action: Action): void => {
    if (WARNS[action]) doubtful.value = action;
    else void run(action);
  };
  const answer = (isSure: boolean): void => {
    const action = doubtful.value;
    doubtful.value = null;
    if (isSure && action) void run(action);
  };
  return (
    <span class="row actions">
      {actionsOf(job).map((action) => (
        <button
          key={action}
          class="small"
          disabled={!mayTrain.value || asking.value !== null}
          title={mayTrain.value ? "" : "This needs a key of scope train"}
          aria-label={`${SAYS[action]} job ${job.id}`}
          onClick={() => choose(action)}
        >
          {SAYS[action]}
        </button>
      ))}
      {doubtful.value && (
        <Confirm
          title={`${SAYS[doubtful.value]} job ${job.id} of ${job.module}?`}
          text={WARNS[doubtful.value] ?? ""}
          label={`${SAYS[doubtful.value]} the job`}
          onAnswer={answer}
        />
      )}
    </span>
  );
}
