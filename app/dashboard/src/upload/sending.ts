/** Sending models to the server, and what it found in the last one. */
import { signal } from "@preact/signals";
import { type Module, put, remove, type Schemas } from "../api/client";
import { type Sent, upload } from "../api/upload";
import { type Model, saysEpoch, statesOf } from "./files";

export type Role = "data" | "label" | "state";

/** A model to send, with the choices made for it. */
export interface Choice {
  model: Model;
  name: string;
  params: File | null;
}

export interface Arrived {
  choice: Choice;
  found: Schemas["FindingsView"] | null;
  /** Errors that did not prevent the upload and can be mended later. */
  notes: string[];
}

/** The model that was sent last, kept for the next screen, because the server tells its findings only once. */
export const arrived = signal<Arrived | null>(null);

const NAMES: Record<Role, string> = { data: "data_names", label: "label_names", state: "state_names" };

/** Send a model, with the roles of its inputs if the user has chosen them. */
export async function send(choice: Choice, roles: ReadonlyMap<string, Role> | null, onProgress: (sent: Sent) => void, signal: AbortSignal): Promise<Module> {
  const created = await upload<Module>("POST", "/v1/modules", { raw: formOf(choice, roles), onProgress, signal });
  const found = created.found ?? null;
  arrived.value = { choice, found, notes: await setLabels(choice, created.name, found?.outputs[0]) };
  return created;
}

/** Send a model again, replacing the module made from it. */
export async function sendAgain(choice: Choice, roles: ReadonlyMap<string, Role>, signal: AbortSignal): Promise<Module> {
  await remove("/v1/modules/{module}", { path: { module: choice.name } });
  return send(choice, roles, () => {}, signal);
}

function formOf({ model, name, params }: Choice, roles: ReadonlyMap<string, Role> | null): FormData {
  const form = new FormData();
  form.append("name", name);
  const files = { archive: model.archive, symbol: model.symbol, params, states: params && statesOf(model, params) };
  for (const [field, file] of Object.entries(files)) {
    if (file) form.append(field, file, file.name); // by default the name would include its folder
  }
  for (const file of model.symbols) form.append("symbol", file, file.name);
  if (params && !saysEpoch(params)) form.append("epoch", "0");
  for (const role of roles ? (["data", "label", "state"] as const) : []) {
    const names = [...(roles ?? [])].filter(([, one]) => one === role).map(([input]) => input);
    for (const one of names.length ? names : [""]) form.append(NAMES[role], one);
  }
  return form;
}

async function setLabels({ model }: Choice, module: string, output: string | undefined): Promise<string[]> {
  if (!model.labels || output === undefined) return [];
  try {
    const raw = await model.labels.text();
    await put("/v1/modules/{module}/labels/{output}", { path: { module, output }, raw, headers: { "Content-Type": "text/plain" } });
    return [];
  } catch (error) {
    return [`${model.labels.name}: ${(error as Error).message}`];
  }
}
