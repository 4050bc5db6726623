/** A field of a form: its label above it, and below it what is wrong with it. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface Props {
  label: string;
  /** What may be there, in a few words. */
  hint?: string;
  faults?: readonly string[];
  /** Makes the field; gives it these. */
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

export function Wrong({ faults }: { faults: readonly string[] }) {
  return <>{faults.map((one) => <p key={one} class="bad hint" role="alert">{one}</p>)}</>;
}
