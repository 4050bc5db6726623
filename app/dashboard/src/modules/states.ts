/** How a module's state is shown. */
import type { Module } from "../api/client";
import type { Tone } from "../parts/state";

export function toneOf(module: Module): Tone {
  if (module.state === "failed") return "bad";
  if (module.state === "params_lost" || module.warning) return "warn";
  return module.params ? "good" : "idle";
}

export function stateOf(module: Module): string {
  if (module.state === "ready" && !module.params) return "not set up";
  return module.state === "params_lost" ? "parameters lost" : module.state;
}

export function residenceOf(module: Module): string {
  if (module.resident === null) return "not known";
  return module.resident ? `on ${module.executor}` : "not on a device";
}

/** The stages of a module, from its symbol to an optimizer. */
export const STAGES: Record<string, string> = {
  created: "not bound to shapes yet",
  bound: "bound, without parameters",
  initialized: "has parameters",
  ready: "has parameters and an optimizer",
};

/** Names of parameters that training does not change. */
export function fixedIn({ live, fixed_param_names: named }: Module): ReadonlySet<string> {
  return new Set(live ? live.arguments.filter((one) => one.fixed).map((one) => one.name) : named);
}
