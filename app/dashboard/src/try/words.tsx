/** A text, or its token numbers, for an input whose length varies. */
import { useSignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { put } from "../api/client";
import { mayTrain } from "../api/session";
import { count, plural } from "../format";
import { Choose, Field, Fill, Wrong } from "../parts/field";
import { type Given, NOTHING, nothing } from "./given";
import { bucketFor, type Input, mostTokens } from "./inputs";

interface Props {
  module: string;
  input: Input;
  onGive: (given: Given) => void;
  onChange: () => Promise<void>;
}

export function Text({ module, input, onGive, onChange }: Props) {
  const text = useSignal("");
  useLayoutEffect(() => onGive(nothing("type something")), [input.name]);
  const { transform } = input;
  if (transform?.type !== "text") return <Vocabulary module={module} input={input} onDone={onChange} />;
  const most = mostTokens(input);
  const [one, parts]: [string, (text: string) => string[]] = transform.tokens === "characters" ? ["character", (now) => [...now]] : ["word", (now) => now.split(/\s+/).filter(Boolean)];
  const length = parts(text.value).length;
  const isCut = transform.longer === "cut";
  const type = (now: string): void => {
    text.value = now;
    const isTooLong = most !== null && parts(now).length > most;
    if (isTooLong && !isCut) onGive(nothing(`the text is longer than ${plural(most, one)}, and its vocabulary was set to refuse those`));
    else onGive(now ? { kind: "text", text: now } : NOTHING);
  };
  return (
    <>
      <Field label={`Text for ${input.name}`} hint={`${plural(length, one)}, looked up among ${count(transform.vocabulary_size)}`}>
        {(its) => <textarea {...its} rows={3} value={text} onInput={(event) => type(event.currentTarget.value)} />}
      </Field>
      {most !== null && length > most ? (
        <p class="notice" role="status">{plural(length, one)} are more than the {count(most)} that fit: {isCut ? <>the answer is that of the <b>first {count(most)}</b> only</> : "such a text is refused"}.</p>
      ) : <Bucket input={input} length={length} />}
    </>
  );
}

export function Tokens({ input, onGive }: Omit<Props, "module" | "onChange">) {
  const text = useSignal("");
  useLayoutEffect(() => onGive(nothing("type numbers")), [input.name]);
  const parts = text.value.split(/[\s,]+/).filter(Boolean);
  const wrong = parts.filter((one) => Number.isNaN(Number(one)));
  const type = (now: string): void => {
    text.value = now;
    const values = now.split(/[\s,]+/).filter(Boolean).map(Number);
    onGive(values.length === 0 || values.some(Number.isNaN) ? nothing("type numbers") : { kind: "tensor", value: [values] });
  };
  return (
    <>
      <Fill label={`Tokens of ${input.name}, by number`} hint={plural(parts.length, "token")} placeholder="3 17 4 9" value={text.value} faults={wrong.length ? [`${wrong[0]} is not a number.`] : []} onFill={type} />
      <Bucket input={input} length={parts.length} />
    </>
  );
}

export function Bucket({ input: { lengths }, length }: { input: Input; length: number }) {
  if (lengths.length === 0) return null;
  const bucket = bucketFor(lengths, length);
  return (
    <p class="quiet" role="status">
      Buckets {lengths.join(", ")}: {length === 0 ? "the smallest that fits is used" : bucket === null ? "none is long enough" : <>it goes to <b>{bucket}</b>{bucket > length ? `, ${plural(bucket - length, "place")} of it padding` : ""}</>}.
    </p>
  );
}

function Vocabulary({ module, input, onDone }: { module: string; input: Input; onDone: () => Promise<void> }) {
  const file = useSignal<File | undefined>(undefined);
  const tokens = useSignal("words");
  const unknown = useSignal("");
  const padding = useSignal("");
  const longer = useSignal("refuse");
  const fault = useSignal("");
  const set = async (): Promise<void> => {
    fault.value = file.value ? "" : "Choose a vocabulary.";
    if (!file.value) return;
    const raw = new FormData();
    raw.append("transform", JSON.stringify({ type: "text", tokens: tokens.value, unknown: unknown.value || null, padding: padding.value || null, longer: longer.value }));
    raw.append("vocabulary", file.value);
    try {
      await put("/v1/modules/{module}/transforms/{input}", { path: { module, input: input.name }, raw });
      await onDone();
    } catch (error) {
      fault.value = (error as Error).message;
    }
  };
  return (
    <div class="stack tight">
      <p>How a text becomes <code>{input.name}</code>: by the vocabulary of the training. The server keeps it for everybody who sends texts.</p>
      <div class="fields">
        <Field label="Vocabulary" hint="One token per line, or JSON">{(its) => <input {...its} type="file" onChange={(event) => (file.value = event.currentTarget.files?.[0])} />}</Field>
        <Choose label="A token is" value={tokens.value} options={[["words", "a word"], ["characters", "a character"]]} onChoose={(one) => (tokens.value = one)} />
        <Fill label="Token for unknown words" hint="Without one, they are refused" value={unknown.value} onFill={(text) => (unknown.value = text)} />
        <Choose label="Texts that are too long" value={longer.value} options={[["refuse", "are refused"], ["cut", "are cut"]]} onChoose={(one) => (longer.value = one)} />
        <Fill label="Token for padding" value={padding.value} onFill={(text) => (padding.value = text)} />
      </div>
      <Wrong faults={fault.value ? [fault.value] : []} />
      <div><button type="button" class="primary" disabled={!mayTrain.value} onClick={() => void set()}>Set it</button></div>
    </div>
  );
}
