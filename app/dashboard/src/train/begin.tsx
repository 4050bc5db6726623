/** What a training begins with: parameters that there are, others, or a new last layer. */
import type { Module } from "../api/client";
import type { Faults } from "../parts/faults";
import { Field } from "../parts/field";
import { cutsOf, type Graph } from "./graph";
import { type Begin, INITIALIZERS, type Plan } from "./plan";

interface Props {
  known: { module: Module; graph: Graph; checkpoints: string[] };
  plan: Plan;
  faults: Faults;
  onChange: (changes: Partial<Plan>) => void;
}

export function BeginChoice({ known: { module, graph, checkpoints }, plan, faults, onChange }: Props) {
  const cuts = cutsOf(graph);
  const ways: [Begin, string, boolean][] = [
    ["present", "with the parameters that it has", module.params !== null],
    ["checkpoint", "with those of a checkpoint", checkpoints.length > 0],
    ["head", "with a new last layer, in a module of its own: for other classes", checkpoints.length > 0 && cuts.all.length > 1],
    ["anew", "anew: its parameters are lost unless a checkpoint has them", true],
  ];
  const choose = (begin: Begin): void => onChange({ begin, ...(begin === "head" && !plan.cut ? { cut: cuts.proposed } : {}) });
  return (
    <section class="panel block" aria-labelledby="begin">
      <header><h2 id="begin">It begins</h2></header>
      <div class="inside stack">
        <div class="stack tight" role="radiogroup" aria-labelledby="begin">
          {ways.filter(([, , isThere]) => isThere).map(([one, says]) => (
            <label key={one}><input type="radio" name="begin" checked={plan.begin === one} onChange={() => choose(one)} /> {one === "anew" && !module.params ? "anew" : says}</label>
          ))}
        </div>
        <div class="fields">
          {(plan.begin === "checkpoint" || plan.begin === "head") && (
            <Field label="Checkpoint">
              {(its) => (
                <select {...its} value={plan.checkpoint} onChange={(event) => onChange({ checkpoint: event.currentTarget.value })}>
                  {checkpoints.map((one) => <option key={one} value={one}>{one}</option>)}
                </select>
              )}
            </Field>
          )}
          {plan.begin === "head" && (
            <>
              <Field label="Classes" faults={faults.at("head")}>
                {(its) => <input {...its} type="number" min={1} required value={plan.classes} onInput={(event) => onChange({ classes: event.currentTarget.value })} />}
              </Field>
              <Field label="The old one is cut behind" faults={faults.at("output")}>
                {(its) => (
                  <>
                    <input {...its} list="cuts" required value={plan.cut} spellcheck={false} onInput={(event) => onChange({ cut: event.currentTarget.value })} />
                    <datalist id="cuts">{cuts.all.map((one) => <option key={one} value={one} />)}</datalist>
                  </>
                )}
              </Field>
              <Field label="Name of the new module" faults={faults.at("name")}>
                {(its) => <input {...its} required value={plan.copy} onInput={(event) => onChange({ copy: event.currentTarget.value })} />}
              </Field>
            </>
          )}
          {(plan.begin === "anew" || plan.begin === "head") && (
            <Field label="First values" faults={faults.at("initializer")}>
              {(its) => (
                <select {...its} value={plan.initializer} onChange={(event) => onChange({ initializer: event.currentTarget.value })}>
                  {INITIALIZERS.map((one) => <option key={one} value={one}>{one}</option>)}
                </select>
              )}
            </Field>
          )}
        </div>
        {plan.begin === "head" && <label><input type="checkbox" checked={plan.isHeadAlone} onChange={(event) => onChange({ isHeadAlone: event.currentTarget.checked })} /> Train the new layer alone; all others stay as they are</label>}
      </div>
    </section>
  );
}
