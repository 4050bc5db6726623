/** Executors: what each is doing, and the memory of its modules. */
import type { Executor } from "../api/client";
import { bytes, count, duration, NONE, sumOf } from "../format";
import type { Loaded } from "../live/resource";
import { Missing, Stale } from "../parts/stale";
import { State } from "../parts/state";
import { link } from "../router";

export function Executors({ executors }: { executors: Loaded<(Executor)[]> }) {
  return (
    <section class="panel" aria-labelledby="executors">
      <header><h2 id="executors">Executors</h2><Stale of={executors} what="State" /></header>
      {executors.data ? executors.data.map((one) => <One key={one.name} executor={one} />) : <Missing of={executors} what="Executors" />}
    </section>
  );
}

function One({ executor }: { executor: Executor }) {
  const { memory_budget: budget, device_memory: device } = executor;
  const modules = (executor.modules ?? []).map(({ name, memory }) => ({ name, size: sumOf(memory) })).sort((a, b) => b.size - a.size);
  const whole = device?.total ?? budget?.bytes ?? 0;
  const used = budget?.used ?? modules.reduce((sum, one) => sum + one.size, 0);
  return (
    <div class="inside stack executor">
      <div class="row">
        <h3>{executor.name}</h3>
        {executor.alive ? <State tone="good">{executor.state ?? "ready"}</State> : <State tone="bad">{executor.state ?? "down"}</State>}
        <span class="quiet">{activity(executor)}</span>
        <span class="push quiet">
          {executor.restarts ? `restarted ${count(executor.restarts)} times, ` : ""}
          its process has {bytes(executor.rss_bytes)}
        </span>
      </div>
      {executor.last_end && <p class="quiet">Its last process: {executor.last_end}</p>}
      <div>
        <div class="meter parts" role="img" aria-label={`Modules use ${bytes(used)} of ${bytes(whole)}`}>
          {whole > 0 && modules.map((one, at) => <span key={one.name} class={`fill-${(at % 8) + 1}`} style={{ width: `${(100 * one.size) / whole}%` }} title={`${one.name}: ${bytes(one.size)}`} />)}
        </div>
        <p class="quiet">Modules take {bytes(used)} of {whole ? bytes(whole) : NONE}</p>
      </div>
      {modules.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`Modules on ${executor.name}`}>
          <table>
            <thead><tr><th scope="col">Module</th><th scope="col" class="number">Memory</th><th scope="col" class="number">Share</th></tr></thead>
            <tbody>
              {modules.map((one, at) => (
                <tr key={one.name}>
                  <td class="name" title={one.name}><span class={`swatch fill-${(at % 8) + 1}`} /><a href={link(["modules", one.name])}>{one.name}</a></td>
                  <td class="number">{bytes(one.size)}</td>
                  <td class="number">{used ? `${((100 * one.size) / used).toFixed(1)}%` : NONE}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

function activity(executor: Executor): string {
  const jobs = executor.jobs?.map((one) => `job ${one.job_id}`).join(", ");
  const doing = executor.doing ? `${executor.doing} for ${duration(executor.busy_seconds)}` : "idle";
  return jobs ? `works on ${jobs}` : doing;
}
