/** The same call from a shell and from Python, for copying. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { session } from "../api/session";
import { asCurl, asPython, type Call, KEY_VARIABLE } from "./call";

export function SameCall({ call }: { call: Call }) {
  const isKeyNeeded = session.value?.key_needed ?? false;
  const { body } = call;
  return (
    <section class="panel block" aria-labelledby="same">
      <header>
        <h2 id="same">The same call</h2>
        {isKeyNeeded && <span class="quiet">with your API key in the variable <code>{KEY_VARIABLE}</code></span>}
        {body instanceof File && <span class="push"><Save file={body} /></span>}
      </header>
      <div class="inside stack">
        <Code label="curl" text={asCurl(call, isKeyNeeded)} />
        <Code label="Python" text={asPython(call, isKeyNeeded)} />
      </div>
    </section>
  );
}

function Code({ label, text }: { label: string; text: string }) {
  const says = useSignal("Copy");
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(() => (says.value = "Copied"), () => (says.value = "Select it and copy"));
  };
  useEffect(() => {
    says.value = "Copy";
  }, [text]);
  return (
    <div class="stack tight">
      <div class="row"><h3>{label}</h3><button type="button" class="small push" onClick={copy}>{says}<span class="visually-hidden"> {label}</span></button></div>
      <pre class="code short" tabIndex={0} aria-label={label}>{text}</pre>
    </div>
  );
}

function Save({ file }: { file: File }) {
  const url = useSignal("");
  useEffect(() => {
    const made = (url.value = URL.createObjectURL(file));
    return () => URL.revokeObjectURL(made);
  }, [file]);
  return <a class="button small" href={url} download={file.name}>Save {file.name}</a>;
}
