/** The form for a training. */
import { useSignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { get, type Module, type Schemas } from "../api/client";
import { mayTrain } from "../api/session";
import { usePolling } from "../live/resource";
import { Faults } from "../parts/faults";
import { Choose, Fill, plain, Wrong } from "../parts/field";
import { Missing, Stale } from "../parts/stale";
import { go, link } from "../router";
import { BeginChoice } from "./begin";
import { DatasetChoice } from "./dataset";
import { useFirst } from "./first";
import { type Graph, hasLoss, metricsOf } from "./graph";
import { Mapping } from "./mapping";
import { fitBody, HAS_MOMENTUM, OPTIMIZERS, type Plan, train } from "./plan";
import { type Dataset, proposed, type Source } from "./sources";

const BATCH = 32;
const MOST_CHECKPOINTS = 100;

interface Known {
  module: Module;
  graph: Graph;
  checkpoints: string[];
}

export function TrainScreen({ name }: { name: string }) {
  document.title = `Train ${name} · modserve`;
  const resource = usePolling((signal) => knownOf(name, signal), 30, [name]);
  const loaded = resource.state.value;
  return (
    <>
      <div class="title">
        <h1>Train <a href={link(["modules", name])}>{name}</a></h1>
        <Stale of={loaded} what="Module" />
      </div>
      {!loaded.data ? <Missing of={loaded} what={`Module ${name}`} /> : <Form known={loaded.data} />}
    </>
  );
}

async function knownOf(name: string, signal: AbortSignal): Promise<Known> {
  const path = { module: name };
  const [module, graph, page] = await Promise.all([
    get("/v1/modules/{module}", { path, signal }),
    get("/v1/modules/{module}/symbol", { path, signal }),
    get("/v1/modules/{module}/checkpoints", { path, query: { limit: MOST_CHECKPOINTS }, signal }),
  ]);
  return { module, graph: graph as unknown as Graph, checkpoints: page.items.map((one) => one.tag) };
}

function firstPlan({ module, graph, checkpoints }: Known): Plan {
  const bound = module.bind?.data_shapes[0]?.shape[0] ?? 0;
  return {
    begin: module.params ? "present" : "anew",
    checkpoint: checkpoints[0] ?? "",
    copy: `${module.name}-tuned`,
    classes: "",
    cut: "",
    isHeadAlone: false,
    initializer: "xavier",
    optimizer: module.optimizer ? "" : "sgd",
    rate: module.params ? "0.01" : "0.05",
    momentum: "0.9",
    decay: "",
    epochs: "5",
    batch: String(bound > 1 ? bound : BATCH),
    metrics: metricsOf(graph),
  };
}

function Form({ known }: { known: Known }) {
  const { module, graph } = known;
  const plan = useSignal(firstPlan(known));
  const dataset = useSignal<Dataset | null>(null);
  const sources = useSignal<Source[]>([]);
  const validated = useSignal<Dataset | null>(null);
  const held = useSignal<Source[]>([]);
  const isValidated = useSignal(false);
  const error = useSignal<Error | null>(null);
  const isBusy = useSignal(false);
  useLayoutEffect(() => {
    sources.value = proposed(module, dataset.value, "train");
  }, [dataset.value]);
  useLayoutEffect(() => {
    held.value = proposed(module, validated.value, "test");
  }, [validated.value]);
  const first = useFirst(module.name, dataset.value, sources.value);
  const firstHeld = useFirst(module.name, isValidated.value ? validated.value : null, held.value, first.value.inputs);
  const change = (changes: Partial<Plan>): void => {
    plan.value = { ...plan.value, ...changes };
  };
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    isBusy.value = true;
    error.value = null;
    try {
      const validation = isValidated.value && validated.value ? { dataset: validated.value.name, sources: held.value } : null;
      const body = fitBody(plan.value, { dataset: dataset.value?.name ?? "", sources: sources.value }, validation);
      const job = await train(module, plan.value, graph, body);
      go(link(["jobs", job.id]));
    } catch (fault) {
      error.value = fault as Error;
      isBusy.value = false;
    }
  };
  const faults = new Faults(error.value);
  const { value: now } = plan;
  const shown = ["dataset", "inputs", "validation", "optimizer", "epochs", "batch_size", "metrics", "initializer", "name", "output", "head"];
  return (
    <form onSubmit={(event) => void run(event)}>
      {!hasLoss(graph) && <p class="notice block" role="status">Its graph does not end with a loss, such as SoftmaxOutput, so that it may learn nothing. A new last layer adds one.</p>}
      <section class="panel block" aria-labelledby="data">
        <header><h2 id="data">Data</h2></header>
        <div class="inside stack">
          <DatasetChoice chosen={dataset.value} faults={faults.at("dataset")} onChoose={(chosen) => (dataset.value = chosen)} />
          {dataset.value && <Mapping label="training" dataset={dataset.value} sources={sources.value} field="inputs" faults={faults} first={first.value} onChange={(next) => (sources.value = next)} />}
          <label><input type="checkbox" checked={isValidated} onChange={(event) => { isValidated.value = event.currentTarget.checked; validated.value ??= dataset.value; }} /> Score it after every epoch on other examples (validation)</label>
          {isValidated.value && (
            <>
              <DatasetChoice chosen={validated.value} faults={faults.at("validation.dataset")} onChoose={(chosen) => (validated.value = chosen)} />
              {validated.value && <Mapping label="validation" dataset={validated.value} sources={held.value} field="validation.inputs" faults={faults} first={firstHeld.value} onChange={(next) => (held.value = next)} />}
            </>
          )}
        </div>
      </section>
      <BeginChoice known={known} plan={now} faults={faults} onChange={change} />
      <section class="panel block" aria-labelledby="steps">
        <header><h2 id="steps">Training</h2></header>
        <div class="inside fields">
          <Fill label="Epochs" hint="Each ends with a version, numbered after those that are there." type="number" min={1} required value={now.epochs} faults={faults.at("epochs")} onFill={(epochs) => change({ epochs })} />
          <Fill label="Batch size" type="number" min={1} required value={now.batch} faults={faults.at("batch_size")} onFill={(batch) => change({ batch })} />
          <OptimizerFields own={module.optimizer} plan={now} faults={faults} onChange={change} />
          <Fill label="Metrics" hint="Separated by commas; options after a name: top_k_accuracy top_k=5" value={now.metrics} faults={faults.at("metrics")} onFill={(metrics) => change({ metrics })} />
        </div>
      </section>
      <Wrong faults={faults.elsewhere(...shown)} />
      <div class="row">
        <button class="primary" disabled={!mayTrain.value || isBusy.value || !dataset.value}>Train</button>
        {!dataset.value && <span class="quiet">Choose a dataset first.</span>}
        {!mayTrain.value && <span class="quiet">This needs a key of scope train.</span>}
      </div>
    </form>
  );
}

interface Part {
  own: Schemas["OptimizerSpec"] | null;
  plan: Plan;
  faults: Faults;
  onChange: (changes: Partial<Plan>) => void;
}

function OptimizerFields({ own, plan, faults, onChange }: Part) {
  const at = (name: string): string[] => faults.at(`optimizer.options.${name}`, `optimizer.${name}`);
  const wrong = faults.at("optimizer").filter((one) => !["learning_rate", "momentum", "wd"].flatMap(at).includes(one));
  return (
    <>
      <Choose
        label="Optimizer"
        value={plan.optimizer}
        options={[...(own ? [["", `the module's own, ${own.name}`] as const] : []), ...plain(OPTIMIZERS)]}
        faults={wrong}
        onChoose={(optimizer) => onChange({ optimizer, rate: optimizer === "sgd" ? "0.01" : "0.001" })}
      />
      {plan.optimizer !== "" && (
        <>
          <Fill label="Learning rate" value={plan.rate} faults={at("learning_rate")} onFill={(rate) => onChange({ rate })} />
          {HAS_MOMENTUM.has(plan.optimizer) && <Fill label="Momentum" value={plan.momentum} faults={at("momentum")} onFill={(momentum) => onChange({ momentum })} />}
          <Fill label="Weight decay" placeholder="0" value={plan.decay} faults={at("wd")} onFill={(decay) => onChange({ decay })} />
        </>
      )}
    </>
  );
}
