/** A field of a form, with its label above and its errors below. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface About {
  label: string;
  /** What may be entered, in a few words. */
  hint?: string | undefined;
  faults?: readonly string[] | undefined;
}

interface Props extends About {
  /** Renders the field itself with these properties. */
  children: (its: { id: string; "aria-describedby": string; "aria-invalid": boolean }) => ComponentChildren;
}

export function Field({ label, hint = "", faults = [], children }: Props) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": `${id}-says`, "aria-invalid": faults.length > 0 })}
      <div id={`${id}-says`}>
        {hint && <p class="quiet hint">{hint}</p>}
        <Wrong faults={faults} />
      </div>
    </div>
  );
}

interface Filling extends About {
  value: string;
  type?: "text" | "number";
  min?: number;
  required?: boolean;
  placeholder?: string;
  /** The id of a list of suggestions. */
  list?: string;
  onFill: (text: string) => void;
}

/** A line to be filled in. */
export function Fill({ label, hint, faults, onFill, ...rest }: Filling) {
  return <Field label={label} hint={hint} faults={faults}>{(its) => <input {...its} {...rest} onInput={(event) => onFill(event.currentTarget.value)} />}</Field>;
}

interface Choosing extends About {
  value: string | number;
  /** The values, each with its text. */
  options: readonly (readonly [value: string | number, says: string])[];
  onChoose: (value: string) => void;
}

/** A choice of one of several values. */
export function Choose({ label, hint, faults, value, options, onChoose }: Choosing) {
  return (
    <Field label={label} hint={hint} faults={faults}>
      {(its) => <select {...its} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>{options.map(([one, says]) => <option key={one} value={one}>{says}</option>)}</select>}
    </Field>
  );
}

/** Options whose texts are their values. */
export function plain(values: readonly string[]): (readonly [string, string])[] {
  return values.map((one) => [one, one]);
}

export function Wrong({ faults }: { faults: readonly string[] }) {
  return <>{faults.map((one) => <p key={one} class="bad hint" role="alert">{one}</p>)}</>;
}
