/** A prediction by hand: a form for the module's inputs, and the answer. */
import { useSignal } from "@preact/signals";
import { get, type Module } from "../api/client";
import { session } from "../api/session";
import { useRefreshOn } from "../live/refresh";
import { usePolling } from "../live/resource";
import { shape } from "../format";
import { Faults } from "../parts/faults";
import { Wrong } from "../parts/field";
import { Missing, Stale } from "../parts/stale";
import { link } from "../router";
import { AnswerView } from "./answer";
import { ask, type Answered } from "./call";
import { Draw } from "./draw";
import { bodyOf, type Given, NOTHING } from "./given";
import { type Input, inputsOf, type Way, waysOf } from "./inputs";
import { Json } from "./json";
import { Picture } from "./picture";
import { SameCall } from "./same";
import { Text, Tokens } from "./words";

const SAYS: Record<Way, string> = { draw: "Draw", image: "Image", text: "Text", tokens: "Tokens", json: "JSON" };
const BEST = [1, 3, 5, 10];

export function TryScreen({ name }: { name: string }) {
  document.title = `Try ${name} · modserve`;
  const path = { module: name };
  const resource = usePolling((signal) => get("/v1/modules/{module}", { path, signal }), 10, [name]);
  useRefreshOn(resource, (event) => event.module === name && event.type.startsWith("module_"));
  const loaded = resource.state.value;
  const module = loaded.data;
  return (
    <>
      <div class="title"><h1>Try <a href={link(["modules", name])}>{name}</a></h1><Stale of={loaded} what="Module" /></div>
      {!module ? <Missing of={loaded} what={`Module ${name}`} /> : !module.bind ? (
        <p class="panel empty">It is not bound to shapes yet. <a href={link(["modules", name, "setup"])}>Set it up</a></p>
      ) : !module.params ? (
        <p class="panel empty">It has no parameters yet. <a href={link(["modules", name, "train"])}>Train it</a></p>
      ) : <Form module={module} onChange={() => resource.refresh()} />}
    </>
  );
}

/** Whether its outputs are rows of class scores, so that the best classes are shown first. */
function isOfClasses({ live, labelled_outputs }: Module): boolean {
  if (labelled_outputs.length > 0) return true;
  const outputs = live?.outputs ?? [];
  return outputs.length > 0 && outputs.every(({ shape: sizes, name }) => sizes.length === 2 && (sizes[1] ?? 0) > 1 && /softmax|prob/i.test(name));
}

function Form({ module, onChange }: { module: Module; onChange: () => Promise<void> }) {
  const inputs = inputsOf(module);
  const given = useSignal<ReadonlyMap<string, Given>>(new Map());
  const topK = useSignal<number | null | undefined>(undefined);
  const answered = useSignal<(Answered & { given: ReadonlyMap<string, Given> }) | null>(null);
  const error = useSignal<Error | null>(null);
  const isBusy = useSignal(false);
  const best = topK.value === undefined ? (isOfClasses(module) ? 5 : null) : topK.value;
  const give = (name: string, one: Given): void => {
    given.value = new Map(given.value).set(name, one);
  };
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    isBusy.value = true;
    error.value = null;
    try {
      const of = new Map(inputs.map((one) => [one.name, given.value.get(one.name) ?? NOTHING]));
      const body = await bodyOf(of);
      if (typeof body === "string") throw new Error(body);
      answered.value = { ...(await ask({ module: module.name, topK: best, body }, AbortSignal.timeout(300_000))), given: of };
      if (!module.live) void onChange();
    } catch (fault) {
      error.value = fault as Error;
    }
    isBusy.value = false;
  };
  const faults = new Faults(error.value);
  const mayAsk = session.value?.scopes.includes("infer") ?? true;
  const places = (input: Input): string[] => [input.name, `inputs.${input.name}`];
  return (
    <div class="grid-2">
      <form onSubmit={(event) => void run(event)}>
        {inputs.map((one) => <Ways key={one.name} module={module.name} input={one} given={given.value.get(one.name) ?? NOTHING} faults={faults.at(...places(one))} onGive={(now) => give(one.name, now)} onChange={onChange} />)}
        <Wrong faults={faults.elsewhere(...inputs.flatMap(places))} />
        <div class="row">
          <button class="primary" disabled={isBusy.value || !mayAsk}>Predict</button>
          <label>
            Answer with
            <select value={best ?? ""} onChange={(event) => (topK.value = Number(event.currentTarget.value) || null)}>
              <option value="">all numbers</option>
              {BEST.map((one) => <option key={one} value={one}>{one === 1 ? "the best class" : `the ${one} best classes`}</option>)}
            </select>
          </label>
          {!mayAsk && <span class="quiet">This needs a key of scope infer.</span>}
        </div>
      </form>
      <div aria-live="polite">
        {answered.value ? <><AnswerView of={answered.value} inputs={inputs} given={answered.value.given} /><SameCall call={answered.value.call} /></> : <p class="panel empty">The answer appears here.</p>}
      </div>
    </div>
  );
}

interface WaysProps {
  module: string;
  input: Input;
  given: Given;
  faults: readonly string[];
  onGive: (given: Given) => void;
  onChange: () => Promise<void>;
}

function Ways({ module, input, given, faults, onGive, onChange }: WaysProps) {
  const ways = waysOf(input);
  const chosen = useSignal<Way>(ways[0] ?? "json");
  const way = ways.includes(chosen.value) ? chosen.value : (ways[0] ?? "json");
  return (
    <section class="panel block" aria-label={input.name}>
      <header>
        <h2><code>{input.name}</code></h2>
        <span class="quiet">{shape(input.sizes.map((one) => one ?? NaN)).replaceAll("NaN", "any")} {input.dtype}</span>
        {ways.length > 1 && <span class="push row" role="group" aria-label={`How to give ${input.name}`}>{ways.map((one) => <button key={one} type="button" class="small" aria-pressed={one === way} onClick={() => (chosen.value = one)}>{SAYS[one]}</button>)}</span>}
      </header>
      <div class="inside stack tight">
        {way === "draw" && <Draw key={input.transform?.type} input={input} onGive={onGive} />}
        {way === "image" && <Picture key={String(input.transform === null)} module={module} input={input} given={given} onGive={onGive} onChange={onChange} />}
        {way === "text" && <Text module={module} input={input} onGive={onGive} onChange={onChange} />}
        {way === "tokens" && <Tokens input={input} onGive={onGive} />}
        {way === "json" && <Json input={input} onGive={onGive} />}
        <Wrong faults={faults} />
      </div>
    </section>
  );
}
