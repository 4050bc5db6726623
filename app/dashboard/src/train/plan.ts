/** A training as entered in the form, and as the server's request. */
import { type Job, type Module, post, remove, type Schemas } from "../api/client";
import { type Graph, variablesBelow } from "./graph";
import { inputsOf, type Source } from "./sources";

/** What the training begins with. */
export type Begin = "present" | "checkpoint" | "anew" | "head";

export interface Plan {
  begin: Begin;
  checkpoint: string;
  /** For a new last layer: the new module's name, the classes, and where the old symbol is cut. */
  copy: string;
  classes: string;
  cut: string;
  isHeadAlone: boolean;
  initializer: string;
  /** Empty for the module's own. */
  optimizer: string;
  rate: string;
  momentum: string;
  decay: string;
  epochs: string;
  batch: string;
  metrics: string;
}

/** Optimizers that take a momentum. */
export const HAS_MOMENTUM = new Set(["sgd", "nag", "signum", "dcasgd"]);
export const OPTIMIZERS = ["sgd", "adam", "nag", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "ftrl", "signum"];
export const INITIALIZERS = ["xavier", "msraprelu", "uniform", "normal", "orthogonal"];

/** `ce, top_k_accuracy top_k=5`: names, each with its options behind it. */
export function readMetrics(text: string): (string | Pick<Schemas["MetricSpec"], "name" | "options">)[] {
  return text.split(",").map((one) => one.trim()).filter(Boolean).map((one) => {
    const [name = "", ...options] = one.split(/\s+/);
    if (options.length === 0) return name;
    const pairs = options.map((pair) => pair.split("=") as [string, string?]);
    return { name, options: Object.fromEntries(pairs.map(([key, value]) => [key, value !== undefined && !Number.isNaN(Number(value)) ? Number(value) : value ?? true])) };
  });
}

/** A number, or the text itself, so that the server reports the error. */
function numeric(text: string): number | string {
  const value = Number(text);
  return text.trim() === "" || Number.isNaN(value) ? text : value;
}

function optimizerOf({ optimizer, rate, momentum, decay }: Plan): object | null {
  if (optimizer === "") return null;
  const options = {
    ...(rate ? { learning_rate: numeric(rate) } : {}),
    ...(HAS_MOMENTUM.has(optimizer) && momentum ? { momentum: numeric(momentum) } : {}),
    ...(decay ? { wd: numeric(decay) } : {}),
  };
  return { name: optimizer, options };
}

export interface Data {
  dataset: string;
  sources: Source[];
}

/** The body of `fit`. */
export function fitBody(plan: Plan, training: Data, validation: Data | null): object {
  return {
    dataset: training.dataset,
    inputs: inputsOf(training.sources),
    epochs: numeric(plan.epochs),
    batch_size: numeric(plan.batch),
    metrics: readMetrics(plan.metrics),
    optimizer: optimizerOf(plan),
    ...(plan.begin === "anew" || plan.begin === "head" ? { initializer: { initializer: plan.initializer } } : {}),
    ...(validation ? { validation: { dataset: validation.dataset, inputs: inputsOf(validation.sources) } } : {}),
  };
}

/** Prepare a module, or make a new one, and queue the training. */
export async function train(module: Module, plan: Plan, graph: Graph, body: object): Promise<Job> {
  const path = { module: module.name };
  if (plan.begin === "checkpoint") await post("/v1/modules/{module}/load", { path, body: { epoch: plan.checkpoint } });
  if (plan.begin === "anew" && module.params) await post("/v1/modules/{module}/params/init", { path, body: { initializer: plan.initializer, seed: 0 } });
  if (plan.begin !== "head") return post("/v1/modules/{module}/fit", { path, body });
  const made = { module: (await post("/v1/modules", { body: copyOf(module, plan, graph) })).name };
  try {
    return await post("/v1/modules/{module}/fit", { path: made, body });
  } catch (error) {
    await remove("/v1/modules/{module}", { path: made }); // so that the next attempt can make it
    throw error;
  }
}

function copyOf(module: Module, plan: Plan, graph: Graph): object {
  const inputs = new Set([...module.data_names, ...module.label_names, ...module.state_names]);
  const fixed = plan.isHeadAlone ? variablesBelow(graph, plan.cut).filter((one) => !inputs.has(one)) : [];
  return { name: plan.copy, from: { module: module.name, epoch: plan.checkpoint }, output: plan.cut, head: { num_hidden: numeric(plan.classes) }, fixed_param_names: fixed };
}
