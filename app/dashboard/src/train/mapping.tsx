/** The inputs of a module, and the arrays of a dataset that they take. */
import { count, plural, shape } from "../format";
import type { Faults } from "../parts/faults";
import { Wrong } from "../parts/field";
import { type First, FirstExample } from "./first";
import { columnsOf, type Dataset, isText, type Source } from "./sources";

/** The choice of columns instead of an array; no array has a name with a slash. */
const COLUMNS = "/columns";

interface Props {
  label: string;
  dataset: Dataset;
  sources: Source[];
  /** Their field in the request: `inputs` or `validation.inputs`. */
  field: string;
  faults: Faults;
  first: First;
  onChange: (sources: Source[]) => void;
}

export function Mapping({ label, dataset, sources, field, faults, first, onChange }: Props) {
  const columns = columnsOf(dataset);
  const change = (at: number, changes: Partial<Source>): void => onChange(sources.map((one, index) => (index === at ? { ...one, ...changes } : one)));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="inputs">
        <thead><tr><th scope="col">Input</th><th scope="col">Array of {dataset.name}</th><th scope="col">Shape of an example</th><th scope="col">Scale</th><th scope="col">The first example becomes</th></tr></thead>
        <tbody>
          {sources.map((one, at) => {
            const told = faults.at(`${field}.${one.input}`);
            const wrong = told.length > 0 ? told : first.faults.at(`inputs.${one.input}`);
            const choose = (chosen: string): void => change(at, chosen === COLUMNS ? { array: "", columns } : { array: chosen, columns: null });
            return (
              <tr key={one.input}>
                <td><code>{one.input}</code></td>
                <td>
                  <select class="small" aria-label={`Array for ${one.input}, ${label}`} value={one.columns ? COLUMNS : one.array} aria-invalid={wrong.length > 0} onChange={(event) => choose(event.currentTarget.value)}>
                    <option value="">none</option>
                    {columns.length > 0 && <option value={COLUMNS}>{`${plural(one.columns?.length ?? columns.length, "column")}, side by side`}</option>}
                    {dataset.arrays.map((array) => <option key={array.name} value={array.name}>{`${array.name} ${shape(array.shape)} ${array.classes.length > 0 ? `${count(array.classes.length)} classes` : array.dtype}`}</option>)}
                  </select>
                  {one.columns && <Columns label={`Columns for ${one.input}, ${label}`} dataset={dataset} chosen={one.columns} onChoose={(chosen) => change(at, { columns: chosen })} />}
                  <Wrong faults={wrong} />
                </td>
                <td><input class="few wide-few" aria-label={`Shape of an example of ${one.input}, ${label}`} placeholder="as it is" value={one.shape} onInput={(event) => change(at, { shape: event.currentTarget.value })} /></td>
                <td><input class="few" aria-label={`Scale of ${one.input}, ${label}`} placeholder="1" value={one.scale} onInput={(event) => change(at, { scale: event.currentTarget.value })} /></td>
                <td class="first"><FirstExample of={first.inputs[one.input]} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

interface ColumnsProps {
  label: string;
  dataset: Dataset;
  chosen: string[];
  onChoose: (columns: string[]) => void;
}

function Columns({ label, dataset, chosen, onChoose }: ColumnsProps) {
  const toggle = (name: string): void => onChoose(dataset.arrays.map((one) => one.name).filter((one) => chosen.includes(one) !== (one === name)));
  return (
    <fieldset class="columns" aria-label={label}>
      {dataset.arrays.map((one) => (
        <label key={one.name}><input type="checkbox" checked={chosen.includes(one.name)} disabled={isText(one)} onChange={() => toggle(one.name)} /> {one.name}{isText(one) && <span class="quiet">(texts)</span>}</label>
      ))}
    </fieldset>
  );
}
