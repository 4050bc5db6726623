/** Controls for the curves, and for comparing runs. */
import { get } from "../api/client";
import { usePolling } from "../live/resource";
import { link } from "../router";
import type { AxisKind } from "./axes";
import type { RunFeed } from "./data";

interface Props {
  id: number;
  others: number[];
  most: number;
  kind: AxisKind;
  weight: number;
  isLog: boolean;
  feeds: RunFeed[];
  onChange: (changes: Record<string, string>) => void;
}

const AXES: AxisKind[] = ["step", "epoch", "time"];

export function Controls({ id, others, most, kind, weight, isLog, feeds, onChange }: Props) {
  const fits = usePolling(async (signal) => (await get("/v1/jobs", { query: { kind: "fit", limit: 50 }, signal })).items, 30).state.value;
  const left = (fits.data ?? []).filter((one) => one.id !== id && !others.includes(one.id) && one.started_at);
  const compare = (ids: number[]): void => onChange({ with: ids.join(",") });
  return (
    <div class="row block controls">
      <span class="row" role="group" aria-label="Horizontal axis">
        {AXES.map((one) => <button key={one} class="small" aria-pressed={kind === one} onClick={() => onChange({ x: one === "step" ? "" : one })}>{one}</button>)}
      </span>
      <label>
        Smoothing
        <input type="range" min="0" max="0.99" step="0.01" value={weight} onInput={(event) => onChange({ smooth: event.currentTarget.value })} />
        <output>{weight.toFixed(2)}</output>
      </label>
      <button class="small" aria-pressed={isLog} onClick={() => onChange({ log: isLog ? "" : "1" })}>Log scale</button>
      <span class="push row">
        {others.length > 0 && <Chip id={id} feed={feeds[0]} colour={1} />}
        {others.map((one, at) => (
          <Chip key={one} id={one} feed={feeds.find((feed) => feed.id === one)} colour={at + 2} onRemove={() => compare(others.filter((each) => each !== one))} />
        ))}
        {left.length > 0 && others.length < most - 1 && (
          <select aria-label="Compare with" value="" onChange={(event) => compare([...others, Number(event.currentTarget.value)])}>
            <option value="">Compare with …</option>
            {left.map((one) => <option key={one.id} value={one.id}>job {one.id}: {one.module}</option>)}
          </select>
        )}
      </span>
    </div>
  );
}

function Chip({ id, feed, colour, onRemove }: { id: number; feed: RunFeed | undefined; colour: number; onRemove?: () => void }) {
  const error = feed?.error.value;
  return (
    <span class="chip" title={error?.message ?? feed?.run.value?.job.module ?? ""}>
      <i class={`swatch fill-${colour}`} /><a href={link(["jobs", id])}>job {id}</a>{error ? <span class="bad"> missing</span> : null}
      {onRemove && <button class="small plain" aria-label={`Remove job ${id}`} onClick={onRemove}>×</button>}
    </span>
  );
}
