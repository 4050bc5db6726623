/** The inputs of a module, and the arrays of a dataset that they take. */
import { shape } from "../format";
import type { Faults } from "../parts/faults";
import { Wrong } from "../parts/field";
import type { Dataset, Source } from "./sources";

interface Props {
  label: string;
  dataset: Dataset;
  sources: Source[];
  /** Their field in the request: `inputs` or `validation.inputs`. */
  field: string;
  faults: Faults;
  onChange: (sources: Source[]) => void;
}

export function Mapping({ label, dataset, sources, field, faults, onChange }: Props) {
  const change = (at: number, changes: Partial<Source>): void => onChange(sources.map((one, index) => (index === at ? { ...one, ...changes } : one)));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="inputs">
        <thead><tr><th scope="col">Input</th><th scope="col">Array of {dataset.name}</th><th scope="col">Shape of an example</th><th scope="col">Scale</th></tr></thead>
        <tbody>
          {sources.map((one, at) => {
            const wrong = faults.at(`${field}.${one.input}`);
            return (
              <tr key={one.input}>
                <td><code>{one.input}</code></td>
                <td>
                  <select class="small" aria-label={`Array for ${one.input}, ${label}`} value={one.array} aria-invalid={wrong.length > 0} onChange={(event) => change(at, { array: event.currentTarget.value })}>
                    <option value="">none</option>
                    {dataset.arrays.map((array) => <option key={array.name} value={array.name}>{`${array.name} ${shape(array.shape)} ${array.dtype}`}</option>)}
                  </select>
                  <Wrong faults={wrong} />
                </td>
                <td><input class="few wide-few" aria-label={`Shape of an example of ${one.input}, ${label}`} placeholder="as it is" value={one.shape} onInput={(event) => change(at, { shape: event.currentTarget.value })} /></td>
                <td><input class="few" aria-label={`Scale of ${one.input}, ${label}`} placeholder="1" value={one.scale} onInput={(event) => change(at, { scale: event.currentTarget.value })} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
