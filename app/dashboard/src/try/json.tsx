/** An input as JSON, with an example of the right shape; a large one as a file. */
import { useSignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { count } from "../format";
import { Field } from "../parts/field";
import { type Given, npy } from "./given";
import { countOf, example, type Input, MOST_SHOWN } from "./inputs";
import { Bucket } from "./words";

const SUFFIXES: Record<string, string> = { npy: "application/x-npy", npz: "application/x-npz", safetensors: "application/x-safetensors" };

export function Json({ input, onGive }: { input: Input; onGive: (given: Given) => void }) {
  const isLarge = countOf(input.sizes, input.lengths[0] ?? 4) > MOST_SHOWN;
  const text = useSignal(isLarge ? "" : JSON.stringify([example(input)]));
  const fault = useSignal("");
  const read = (now: string): void => {
    text.value = now;
    fault.value = "";
    try {
      onGive({ kind: "tensor", value: JSON.parse(now) });
    } catch (error) {
      fault.value = (error as Error).message;
      onGive({ kind: "nothing", why: "the text is not JSON" });
    }
  };
  useLayoutEffect(() => (isLarge ? onGive({ kind: "file", file: exampleFile(input) }) : read(text.value)), [input.name]);
  const take = (file: File | undefined): void => {
    const type = SUFFIXES[file?.name.split(".").pop() ?? ""];
    if (file && type) onGive({ kind: "file", file: new File([file], file.name, { type }) });
    else if (file) void file.text().then(read);
  };
  return (
    <div class="stack tight">
      {isLarge && text.value === "" ? (
        <p>An example has {count(countOf(input.sizes, input.lengths[0] ?? 4))} numbers: one is sent as <code>example.npy</code>, unless you choose a file.</p>
      ) : (
        <Field label={`Examples of ${input.name}, as JSON`} faults={fault.value ? [fault.value] : []}>
          {(its) => <textarea {...its} rows={6} spellcheck={false} value={text} onInput={(event) => read(event.currentTarget.value)} />}
        </Field>
      )}
      <Bucket input={input} length={lengthOf(text.value)} />
      <Field label="Or a file" hint=".npy, .npz, .safetensors or .json">
        {(its) => <input {...its} type="file" onChange={(event) => take(event.currentTarget.files?.[0])} />}
      </Field>
    </div>
  );
}

/** The length of the first example; 0 if unknown. */
function lengthOf(text: string): number {
  try {
    return ((JSON.parse(text) as unknown[][])[0] ?? []).length || 0;
  } catch {
    return 0;
  }
}

function exampleFile(input: Input): File {
  const sizes = [1, ...input.sizes.map((one) => one ?? input.lengths[0] ?? 4)];
  return npy(Float32Array.from({ length: countOf(sizes, 1) }, (_, at) => (1 + Math.sin(at)) / 2), sizes);
}
