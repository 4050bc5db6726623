/** What a training begins with: existing parameters, new ones, or a new last layer. */
import type { Module } from "../api/client";
import type { Faults } from "../parts/faults";
import { Choose, Fill, plain } from "../parts/field";
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
  const isHead = plan.begin === "head";
  const ways: [Begin, string, boolean][] = [
    ["present", "its present parameters", module.params !== null],
    ["checkpoint", "a checkpoint", checkpoints.length > 0],
    ["head", "a new last layer for other classes, in a new module", checkpoints.length > 0 && cuts.all.length > 1],
    ["anew", "new parameters: its present ones are lost unless a checkpoint has them", true],
  ];
  const choose = (begin: Begin): void => onChange({ begin, ...(begin === "head" && !plan.cut ? { cut: cuts.proposed } : {}) });
  return (
    <section class="panel block" aria-labelledby="begin">
      <header><h2 id="begin">Start from</h2></header>
      <div class="inside stack">
        <div class="stack tight" role="radiogroup" aria-labelledby="begin">
          {ways.filter(([, , isThere]) => isThere).map(([one, says]) => (
            <label key={one}><input type="radio" name="begin" checked={plan.begin === one} onChange={() => choose(one)} /> {one === "anew" && !module.params ? "new parameters" : says}</label>
          ))}
        </div>
        <div class="fields">
          {(plan.begin === "checkpoint" || isHead) && <Choose label="Checkpoint" value={plan.checkpoint} options={plain(checkpoints)} onChoose={(checkpoint) => onChange({ checkpoint })} />}
          {isHead && (
            <>
              <Fill label="Classes" type="number" min={1} required value={plan.classes} faults={faults.at("head")} onFill={(classes) => onChange({ classes })} />
              <Fill label="Cut the old one after" list="cuts" required value={plan.cut} faults={faults.at("output")} onFill={(cut) => onChange({ cut })} />
              <datalist id="cuts">{cuts.all.map((one) => <option key={one} value={one} />)}</datalist>
              <Fill label="Name of the new module" required value={plan.copy} faults={faults.at("name")} onFill={(copy) => onChange({ copy })} />
            </>
          )}
          {(plan.begin === "anew" || isHead) && <Choose label="Initializer" value={plan.initializer} options={plain(INITIALIZERS)} faults={faults.at("initializer")} onChoose={(initializer) => onChange({ initializer })} />}
        </div>
        {isHead && <label><input type="checkbox" checked={plan.isHeadAlone} onChange={(event) => onChange({ isHeadAlone: event.currentTarget.checked })} /> Train only the new layer; all others stay as they are</label>}
      </div>
    </section>
  );
}
