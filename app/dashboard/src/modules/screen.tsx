/** One module: its facts, versions, buckets and labels. */
import { get, type Module } from "../api/client";
import { bytes, count, moment, NONE, shape, sumOf } from "../format";
import { useRefreshOn } from "../live/refresh";
import { usePolling } from "../live/resource";
import { Missing, Stale } from "../parts/stale";
import { State } from "../parts/state";
import { link } from "../router";
import { Buckets } from "./buckets";
import { Labels } from "./labels";
import { residenceOf, STAGES, stateOf, toneOf } from "./states";
import { VersionsPanel } from "./versions";

export function ModuleScreen({ name }: { name: string }) {
  document.title = `${name} · modserve`;
  const path = { module: name };
  const resource = usePolling((signal) => get("/v1/modules/{module}", { path, signal }), 10, [name]);
  useRefreshOn(resource, (event) => event.module === name && (event.type.startsWith("module_") || event.status !== "running"));
  const loaded = resource.state.value;
  const module = loaded.data;
  if (!module) return <Missing of={loaded} what={`Module ${name}`} />;
  return (
    <>
      <div class="title">
        <h1>{name}</h1>
        <State tone={toneOf(module)}>{stateOf(module)}</State>
        <Stale of={loaded} what="State" />
        <Ways module={module} />
      </div>
      <Facts module={module} />
      <VersionsPanel name={name} />
      {Object.keys(module.live?.buckets ?? {}).length > 1 && <Buckets name={name} bound={Object.keys(module.live?.buckets ?? {}).length} />}
      <Labels module={module} onChange={() => resource.refresh()} />
    </>
  );
}

/** Links to the screens of a module. */
function Ways({ module }: { module: Module }) {
  const { name } = module;
  return (
    <span class="push row">
      <a class="button" href={link(["modules", name, "try"])}>Try it</a>
      <a class="button" href={link(["modules", name, "graph"])}>Graph</a>
      <a class="button" href={link(["modules", name, "parameters"])}>Parameters</a>
      <a class="button" href={link(["modules", name, "train"])}>Train</a>
      <a class="button" href={link(["modules", name, "setup"])}>{module.bind ? "Shapes" : "Set up"}</a>
      <a class="button" href={link(["jobs"], { module: name })}>Jobs</a>
    </span>
  );
}

function Facts({ module }: { module: Module }) {
  const { live, optimizer } = module;
  const memory = live?.memory;
  const rate = live?.optimizer?.learning_rate;
  const facts: [string, string][] = [
    ["Stage", STAGES[module.stage] ?? module.stage],
    ["Where", residenceOf(module)],
    ["Memory", memory ? `${bytes(sumOf(memory))}, parameters ${bytes(memory.parameters)}` : NONE],
    ["Inputs", module.data_names.join(", ") || NONE],
    ["Labels", module.label_names.join(", ") || NONE],
    ...(module.state_names.length ? [["States", module.state_names.join(", ")] as [string, string]] : []),
    ["Outputs", live ? live.outputs.map((one) => `${one.name} ${shape(one.shape)}`).join(", ") || live.output_names.join(", ") : NONE],
    ["Optimizer", optimizer ? `${optimizer.name}${rate == null ? "" : `, learning rate ${rate}`}` : NONE],
    ["Updates", count(live?.optimizer?.num_update)],
    ["Newest checkpoint", module.checkpoint ?? NONE],
    ["Durable", module.durable ? "yes" : "no: save a checkpoint"],
    ["Updated", moment(module.updated_at)],
  ];
  return (
    <section class="panel block" aria-label="Facts">
      <div class="inside stack">
        {module.reason && <p class="bad" role="alert">It failed: {module.reason}</p>}
        {module.warning && <p role="status">{module.warning}</p>}
        <dl class="facts">{facts.map(([term, says]) => <div key={term} class={says.length > 48 ? "long" : ""}><dt>{term}</dt><dd>{says}</dd></div>)}</dl>
      </div>
    </section>
  );
}
