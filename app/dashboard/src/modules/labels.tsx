/** Names of the classes of an output, one per line. */
import { useSignal } from "@preact/signals";
import { get, type Module, put, Refused, remove } from "../api/client";
import { mayTrain } from "../api/session";
import { plural } from "../format";
import { Field, Wrong } from "../parts/field";

const CHANGED = 412;

export function Labels({ module, onChange }: { module: Module; onChange: () => Promise<void> }) {
  const outputs = module.live?.output_names ?? module.labelled_outputs;
  const opened = useSignal("");
  if (outputs.length === 0) return null;
  return (
    <section class="panel block" aria-labelledby="labels">
      <header><h2 id="labels">Labels</h2><span class="quiet">names of classes, shown beside their scores</span></header>
      <ul class="inside stack tight">
        {outputs.map((one) => (
          <li key={one}>
            <div class="row">
              <code>{one}</code>
              <span class="quiet">{module.labelled_outputs.includes(one) ? "has labels" : "has none"}</span>
              <button class="small" aria-expanded={opened.value === one} onClick={() => (opened.value = opened.value === one ? "" : one)}>{mayTrain.value ? "Edit" : "Show"}<span class="visually-hidden"> labels of {one}</span></button>
            </div>
            {opened.value === one && <Editor module={module} output={one} onSaved={async () => { opened.value = ""; await onChange(); }} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

interface EditorProps {
  module: Module;
  output: string;
  onSaved: () => Promise<void>;
}

function Editor({ module, output, onSaved }: EditorProps) {
  const path = { module: module.name, output };
  const text = useSignal<string | null>(null);
  /** The module's ETag when the labels were fetched, so that changes by others are not overwritten. */
  const etag = useSignal(module.etag);
  const fault = useSignal<Error | null>(null);
  const look = async (): Promise<void> => {
    fault.value = null;
    try {
      const now = await get("/v1/modules/{module}", { path: { module: module.name } });
      const labels = now.labelled_outputs.includes(output) ? await get("/v1/modules/{module}/labels/{output}", { path }) : [];
      text.value = labels.join("\n");
      etag.value = now.etag;
    } catch (error) {
      fault.value = error as Error;
    }
  };
  const isBegun = useSignal(false);
  if (!isBegun.value) {
    isBegun.value = true;
    void look();
  }
  const run = async (call: () => Promise<unknown>): Promise<void> => {
    fault.value = null;
    try {
      await call();
      await onSaved();
    } catch (error) {
      fault.value = error as Error;
    }
  };
  const lines = (text.value ?? "").split("\n").map((one) => one.trim());
  while (lines.at(-1) === "") lines.pop();
  const headers = { "If-Match": etag.value };
  const save = (): Promise<void> => run(() => put("/v1/modules/{module}/labels/{output}", { path, headers, body: lines }));
  const drop = (): Promise<void> => run(() => remove("/v1/modules/{module}/labels/{output}", { path, headers }));
  const isOld = fault.value instanceof Refused && fault.value.status === CHANGED;
  return (
    <div class="stack tight editor">
      <Field label={`Labels of ${output}, one per line, starting with class 0`} hint={plural(lines.length, "label")}>
        {(its) => <textarea {...its} rows={10} readOnly={!mayTrain.value} spellcheck={false} disabled={text.value === null} value={text.value ?? "Loading …"} onInput={(event) => (text.value = event.currentTarget.value)} />}
      </Field>
      <Wrong faults={fault.value ? [fault.value.message] : []} />
      {mayTrain.value && (
        <div class="row">
          <button class="primary" disabled={lines.length === 0} onClick={() => void save()}>Save</button>
          {module.labelled_outputs.includes(output) && <button onClick={() => void drop()}>Remove</button>}
          {isOld && <button onClick={() => void look()}>Load what is there now</button>}
        </div>
      )}
    </div>
  );
}
