/** What was found in a model, and a form for the rest, until it is bound. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { get, type Module, post, type Schemas } from "../api/client";
import { mayTrain } from "../api/session";
import { shape } from "../format";
import { usePolling } from "../live/resource";
import { useRefreshOn } from "../live/refresh";
import { Faults } from "../parts/faults";
import { Wrong } from "../parts/field";
import { Missing, Stale } from "../parts/stale";
import { State } from "../parts/state";
import { link } from "../router";
import { arrived, type Arrived, type Role, sendAgain } from "./sending";
import { readShape, written } from "./shapes";

type InputDesc = Pick<Schemas["InputDesc"], "name" | "shape"> & Partial<Schemas["InputDesc"]>;
interface Input {
  name: string;
  role: Role;
  shape: readonly number[] | null;
  layout: string | null;
}

const ROLES: Role[] = ["data", "label", "state"];
const SAYS: Record<Role, string> = { data: "data", label: "label", state: "first state" };

export function SetupScreen({ name }: { name: string }) {
  document.title = `${name}, set up · modserve`;
  const path = { module: name };
  const resource = usePolling((signal) => get("/v1/modules/{module}", { path, signal }), 10, [name]);
  useRefreshOn(resource, (event) => event.module === name && event.type.startsWith("module_"));
  const loaded = resource.state.value;
  const module = loaded.data;
  if (!module) return <Missing of={loaded} what={`Module ${name}`} />;
  const here = arrived.value?.choice.name === name || arrived.value?.choice.model.archive ? arrived.value : null;
  return (
    <>
      <div class="title">
        <h1><a href={link(["modules", name])}>{name}</a></h1>
        {module.bind ? <State tone="good">bound</State> : <State tone="warn">not bound to shapes yet</State>}
        <Stale of={loaded} what="State" />
        <Next module={module} />
      </div>
      <Setup key={`${module.created_at} ${module.bind ? module.version : ""}`} module={module} arrived={here} onChange={() => resource.refresh()} />
      {module.archive && <Archive facts={module.archive} />}
    </>
  );
}

/** Links to the next screens. */
export function Next({ module }: { module: Module }) {
  return (
    <span class="push row">
      {module.bind && module.params && <a class="button primary" href={link(["modules", module.name, "try"])}>Try it</a>}
      <a class="button" href={link(["modules", module.name, "train"])}>Train</a>
    </span>
  );
}

function inputsOf(module: Module, found: Schemas["FindingsView"] | null): Input[] {
  const bound = new Map([...(module.bind?.data_shapes ?? []), ...(module.bind?.label_shapes ?? [])].map((one) => [one.name, one]));
  const known = new Map((found?.inputs ?? []).map((one) => [one.name, one]));
  const groups: [Role, readonly string[]][] = [["data", module.data_names], ["label", module.label_names], ["state", module.state_names]];
  return groups.flatMap(([role, names]) => names.map((name) => ({
    name,
    role,
    shape: (bound.get(name)?.shape as number[] | undefined) ?? known.get(name)?.shape ?? null,
    layout: known.get(name)?.layout ?? null,
  })));
}

function Setup({ module, arrived, onChange }: { module: Module; arrived: Arrived | null; onChange: () => Promise<void> }) {
  const found = arrived?.found ?? null;
  const inputs = inputsOf(module, found);
  const shapes = useSignal(new Map(inputs.map((one) => [one.name, written(one.shape)])));
  const roles = useSignal(new Map(inputs.map((one) => [one.name, one.role])));
  const isTrained = useSignal(module.bind?.for_training ?? true);
  const error = useSignal<Error | null>(null);
  const isBusy = useSignal(false);
  const sending = useRef(new AbortController());
  const open = new Set(found?.open ?? []);
  const isOther = inputs.some((one) => roles.value.get(one.name) !== one.role);
  const run = async (call: () => Promise<unknown>): Promise<void> => {
    isBusy.value = true;
    error.value = null;
    try {
      await call();
      await onChange();
    } catch (fault) {
      error.value = fault as Error;
    }
    isBusy.value = false;
  };
  const write = (input: Input, text: string): void => {
    const next = new Map(shapes.value).set(input.name, text);
    const [before, after] = [shapes.value.get(input.name) ?? "", text].map((one) => readShape(one)?.[0]);
    // Labels keep as many examples as the data.
    for (const { name, role } of inputs) {
      const sizes = readShape(next.get(name) ?? "");
      if (input.role === "data" && role === "label" && after && sizes?.[0] === (before ?? after)) next.set(name, written([after, ...sizes.slice(1)]));
    }
    shapes.value = next;
  };
  const described = (role: Role): InputDesc[] => inputs.filter((one) => one.role === role).flatMap((one) => {
    const sizes = readShape(shapes.value.get(one.name) ?? "");
    return sizes ? [{ ...descOf(module, one.name), shape: sizes, ...(one.layout ? { layout: one.layout } : {}) }] : [];
  });
  const bind = (event: Event): void => {
    event.preventDefault();
    const body = { data_shapes: described("data"), label_shapes: isTrained.value ? described("label") : [], for_training: isTrained.value };
    void run(() => post("/v1/modules/{module}/bind", { path: { module: module.name }, body }));
  };
  const faults = new Faults(error.value);
  const ofInput = ({ name, role }: Input): string[] => faults.at(`${role}_shapes`, name).filter((one) => one.includes(`'${name}'`) || inputs.filter((other) => other.role === role).length === 1);
  const told = new Set(inputs.flatMap(ofInput));
  const rest = [...faults.at("data_shapes", "label_shapes").filter((one) => !told.has(one)), ...faults.elsewhere("data_shapes", "label_shapes", ...inputs.map((one) => one.name))];
  return (
    <form class="panel block" aria-labelledby="inputs" onSubmit={bind}>
      <header><h2 id="inputs">What was found</h2>{found && <span class="quiet">outputs: {found.outputs.join(", ")}</span>}</header>
      {(arrived?.notes.length || found?.warnings.length) ? (
        <ul class="inside stack tight" aria-label="Warnings">
          {[...(arrived?.notes ?? []), ...(found?.warnings ?? [])].map((one) => <li key={one}><State tone="warn">{one}</State></li>)}
        </ul>
      ) : null}
      <div class="scroll" tabIndex={0} role="region" aria-label="Inputs">
        <table class="inputs">
          <thead><tr><th scope="col">Input</th><th scope="col">Role</th><th scope="col">Shape, including the batch</th></tr></thead>
          <tbody>
            {inputs.map((one) => (
              <tr key={one.name}>
                <td><code>{one.name}</code></td>
                <td>
                  {arrived?.choice.model.symbol ? (
                    <select class="small" aria-label={`${one.name} is`} value={roles.value.get(one.name)} onChange={(event) => (roles.value = new Map(roles.value).set(one.name, event.currentTarget.value as Role))}>
                      {ROLES.map((role) => <option key={role} value={role}>{SAYS[role]}</option>)}
                    </select>
                  ) : SAYS[one.role]}
                </td>
                <td>
                  {one.role === "state" ? <span class="quiet">follows from the data</span> : (
                    <>
                      <input aria-label={`Shape of ${one.name}`} class="shape" placeholder={open.has(one.name) ? "required" : one.role === "label" ? "from the data" : "inferred"} value={shapes.value.get(one.name)} aria-invalid={ofInput(one).length > 0} spellcheck={false} onInput={(event) => write(one, event.currentTarget.value)} />
                      {open.has(one.name) && !shapes.value.get(one.name) && <span class="warn-text"> still open</span>}
                      <Wrong faults={ofInput(one)} />
                    </>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="inside stack tight">
        <Wrong faults={rest} />
        <div class="row">
          {isOther && arrived ? (
            <button type="button" class="primary" disabled={isBusy} onClick={() => void run(() => sendAgain(arrived.choice, roles.value, sending.current.signal))}>Use these roles</button>
          ) : (
            <button class={module.bind ? "" : "primary"} disabled={isBusy.value || !mayTrain.value}>{module.bind ? "Bind again" : "Bind"}</button>
          )}
          <label><input type="checkbox" checked={isTrained} onChange={(event) => (isTrained.value = event.currentTarget.checked)} /> for training</label>
          <span class="quiet" role="status">{module.bind ? boundTo(module) : ""}</span>
        </div>
      </div>
    </form>
  );
}

/** The description with which an input is bound already, so that its dtype and padding stay. */
function descOf(module: Module, name: string): Omit<InputDesc, "shape"> {
  const bound = [...(module.bind?.data_shapes ?? []), ...(module.bind?.label_shapes ?? [])].find((one) => one.name === name);
  return bound ?? { name };
}

function boundTo(module: Module): string {
  const outputs = module.live?.outputs ?? [];
  if (outputs.length === 0) return "Bound.";
  return `Bound; it answers ${outputs.map((one) => `${one.name} ${shape(one.shape)}`).join(", ")}.`;
}

function Archive({ facts }: { facts: Schemas["ArchiveFacts"] }) {
  const rows = [...Object.entries(facts.taken ?? {}), ...(facts.passed_over ?? []).map((file) => ["ignored", file] as const)];
  return (
    <section class="panel block" aria-labelledby="archive">
      <header><h2 id="archive">The archive</h2><span class="quiet">{facts.model}{facts.handler ? `; its handler ${facts.handler} is never run here` : ""}</span></header>
      {facts.warnings?.length ? <ul class="inside stack tight">{facts.warnings.map((one) => <li key={one}><State tone="warn">{one}</State></li>)}</ul> : null}
      <div class="scroll" tabIndex={0} role="region" aria-label="Files of the archive">
        <table>
          <thead><tr><th scope="col">File</th><th scope="col">Taken for</th></tr></thead>
          <tbody>{rows.map(([says, file]) => <tr key={file}><td>{file}</td><td>{says}</td></tr>)}</tbody>
        </table>
      </div>
    </section>
  );
}
