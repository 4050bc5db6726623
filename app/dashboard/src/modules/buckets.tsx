/** The lengths of past predictions, the padding they needed, and buckets that would need less. */
import { useSignal } from "@preact/signals";
import { get, type Plan, post } from "../api/client";
import { mayTrain } from "../api/session";
import { count } from "../format";
import { usePolling } from "../live/resource";
import { Confirm } from "../parts/confirm";
import { Missing, Stale } from "../parts/stale";

const LEAST = 2;
const MOST = 64;
const MOST_BARS = 64;

export function Buckets({ name, bound }: { name: string; bound: number }) {
  const k = useSignal(Math.max(LEAST, bound));
  const isAsked = useSignal(false);
  const fault = useSignal("");
  const path = { module: name };
  const resource = usePolling((signal) => get("/v1/modules/{module}/buckets/plan", { path, query: { k: k.value }, signal }), 10, [name, k.value]);
  const loaded = resource.state.value;
  const plan = loaded.data;
  const apply = async (isSure: boolean): Promise<void> => {
    isAsked.value = false;
    if (!isSure) return;
    fault.value = "";
    try {
      await post("/v1/modules/{module}/buckets/plan", { path, query: { k: k.value } });
    } catch (error) {
      fault.value = (error as Error).message;
    }
    await resource.refresh();
  };
  const isSame = plan !== null && String(plan.bound) === String(plan.planned);
  return (
    <section class="panel block" aria-labelledby="buckets">
      <header>
        <h2 id="buckets">Buckets</h2>
        <Stale of={loaded} what="Plan" />
        <span class="push row">
          <label>
            At most
            <input class="few" type="number" min={LEAST} max={MOST} value={k} onChange={(event) => (k.value = Math.min(MOST, Math.max(LEAST, Math.round(Number(event.currentTarget.value)) || LEAST)))} />
          </label>
          <button class="small" disabled={!mayTrain.value || !plan || isSame} title={isSame ? "The planned buckets are already bound" : ""} onClick={() => (isAsked.value = true)}>Apply the plan</button>
        </span>
      </header>
      {fault.value && <p class="inside bad" role="alert">{fault}</p>}
      {plan ? <PlanView plan={plan} /> : <Missing of={loaded} what="The plan" />}
      {isAsked.value && plan && (
        <Confirm
          title={`Bind ${plan.planned.join(", ")}?`}
          text={`${share(plan.waste_planned)} of the computation would be padding, instead of ${share(plan.waste_bound)}. No prediction is refused meanwhile.`}
          label="Apply"
          onAnswer={(isSure) => void apply(isSure)}
        />
      )}
    </section>
  );
}

function PlanView({ plan }: { plan: Plan }) {
  const rows = Object.entries(plan.lengths).map(([length, examples]) => [Number(length), examples] as const);
  return (
    <div class="inside stack">
      <dl class="facts">
        <div><dt>Examples counted</dt><dd>{count(plan.examples)}</dd></div>
        <div><dt>Chosen by</dt><dd>{plan.input}, axis {plan.axis}</dd></div>
        <div><dt>Bound</dt><dd>{plan.bound.join(", ")}</dd></div>
        <div><dt>Planned</dt><dd>{plan.planned.join(", ")}</dd></div>
        <div><dt>Padding with those bound</dt><dd>{share(plan.waste_bound)} of the computation</dd></div>
        <div><dt>With those planned</dt><dd>{share(plan.waste_planned)}</dd></div>
      </dl>
      {rows.length === 0 ? <p class="quiet">No predictions were counted yet: the plan is based on the buckets alone.</p> : <Bars rows={rows} plan={plan} />}
    </div>
  );
}

/** Lengths as bars; if there are many, neighbours share a bar. */
function Bars({ rows, plan }: { rows: (readonly [number, number])[]; plan: Plan }) {
  const last = Math.max(...rows.map(([length]) => length), ...plan.bound);
  const step = Math.ceil(last / MOST_BARS);
  const bars = Array.from({ length: Math.ceil(last / step) }, (_, at) => {
    const [from, to] = [at * step + 1, (at + 1) * step];
    const within = (length: number): boolean => length >= from && length <= to;
    return {
      label: step === 1 ? String(from) : `${from}–${to}`,
      examples: rows.filter(([length]) => within(length)).reduce((sum, [, examples]) => sum + examples, 0),
      isBound: plan.bound.some(within),
      isPlanned: plan.planned.some(within),
    };
  });
  const most = Math.max(...bars.map((one) => one.examples));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Lengths">
      <table class="lengths">
        <thead><tr><th scope="col" class="number">Length</th><th scope="col" class="number">Examples</th><th scope="col"><span class="visually-hidden">As a bar</span></th><th scope="col">Bucket</th></tr></thead>
        <tbody>
          {bars.filter((one) => one.examples || one.isBound || one.isPlanned).map((one) => (
            <tr key={one.label}>
              <td class="number">{one.label}</td><td class="number">{count(one.examples)}</td>
              <td class="bar-cell"><span class="fill-1" style={{ width: `${most ? (100 * one.examples) / most : 0}%` }} /></td>
              <td>{[one.isBound && "bound", one.isPlanned && "planned"].filter(Boolean).join(", ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function share(part: number): string {
  return `${(part * 100).toFixed(1)}%`;
}
