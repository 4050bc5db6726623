/** Times of a prediction's steps, measured on demand: as a heat map and as a table. */
import type { Schemas } from "../api/client";
import { latency, plural } from "../format";
import type { Heat } from "./canvas";
import type { GraphData, Shown } from "./grouping";

export type Profile = Schemas["ProfileView"];
type Step = Schemas["StepTimeView"];

const MOST_NAMES = 8;

/** Steps by the node that they compute, alone or fused with others. */
export function stepsByNode(profile: Profile): Map<string, Step[]> {
  const found = new Map<string, Step[]>();
  for (const step of profile.steps) {
    for (const name of step.nodes) found.set(name, [...(found.get(name) ?? []), step]);
  }
  return found;
}

export function sumOfSteps(steps: Iterable<Step>): number {
  let sum = 0;
  for (const step of new Set(steps)) sum += step.seconds;
  return sum;
}

export function heatOf(graph: GraphData, shown: Shown, profile: Profile): Heat {
  const steps = stepsByNode(profile);
  const told = new Set<Step>();
  const isTold: boolean[] = [];
  const seconds = shown.items.map(({ members }) => {
    const found = members.flatMap((at) => steps.get(graph.nodes[at]?.name ?? "") ?? []);
    isTold.push(found.every((step) => told.has(step)));
    for (const step of found) told.add(step);
    return found.length ? sumOfSteps(found) : null;
  });
  const most = seconds.reduce<number>((high, one) => Math.max(high, one ?? 0), 0);
  return {
    // The square root makes short steps visible beside long ones.
    shares: seconds.map((one) => (one === null || most === 0 ? null : Math.sqrt(one / most))),
    says: seconds.map((one, at) => (one === null ? "" : isTold[at] ? "↑ fused" : latency(one))),
  };
}

export function Times({ profile, onSelect }: { profile: Profile; onSelect: (name: string) => void }) {
  const sum = sumOfSteps(profile.steps);
  const rows = [...profile.steps].sort((one, other) => other.seconds - one.seconds);
  return (
    <section class="panel block" aria-labelledby="times">
      <header>
        <h2 id="times">Time by step</h2>
        <span class="quiet">
          {plural(profile.steps.length, "step")} take {latency(sum)} on {profile.device}, a whole pass over {plural(profile.batch, "example")} {latency(profile.seconds)}; medians of {plural(profile.runs, "pass").replace(/passs$/, "passes")}
        </span>
      </header>
      <div class="scroll short" tabIndex={0} role="region" aria-label="Time by step, table">
        <table>
          <thead><tr><th scope="col">Computes</th><th scope="col">Operator</th><th scope="col">Kernel</th><th scope="col" class="number">Time</th><th scope="col" class="number">Least</th><th scope="col" class="number">Share</th></tr></thead>
          <tbody>
            {rows.map((step, at) => (
              <tr key={at}>
                <td><Nodes step={step} onSelect={onSelect} /></td>
                <td>{step.operator}</td><td class="quiet">{step.kernel}</td>
                <td class="number">{latency(step.seconds)}</td><td class="number">{latency(step.least_seconds)}</td>
                <td class="number">{((100 * step.seconds) / sum).toFixed(1)}%</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Nodes({ step, onSelect }: { step: Step; onSelect: (name: string) => void }) {
  if (step.copied) return <span class="quiet">copies {step.copied} to another memory layout</span>;
  const rest = step.nodes.length - MOST_NAMES;
  return (
    <>
      {step.nodes.slice(0, MOST_NAMES).map((name, at) => <>{at > 0 && " + "}<button class="link" onClick={() => onSelect(name)}>{name}</button></>)}
      {rest > 0 && <span class="quiet"> and {rest} more, fused</span>}
    </>
  );
}
