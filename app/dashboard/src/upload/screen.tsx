/** The upload of a model's files. */
import { useSignal } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import type { Refused } from "../api/client";
import { mayTrain } from "../api/session";
import type { Sent } from "../api/upload";
import { bytes, plural } from "../format";
import { Faults } from "../parts/faults";
import { Choose, Fill, Wrong } from "../parts/field";
import { Meter } from "../parts/meter";
import { go, link } from "../router";
import { DropZone } from "./drop";
import { type Model, placeOf, sorted, type Sorted, statesOf } from "./files";
import { type Choice, send } from "./sending";

const SAYS = "Drop the files of a model here, or a whole folder: prefix-symbol.json with prefix-0001.params, or an archive (.mar, .tar.gz).";
const MOST_OTHERS = 8;

export function UploadScreen() {
  document.title = "Upload · modserve";
  const taken = useSignal<Sorted | null>(null);
  const chosen = useSignal(0);
  const take = useCallback((files: File[]): void => {
    if (files.length === 0) return;
    void sorted(files).then((found) => {
      chosen.value = 0;
      taken.value = found;
    });
  }, []);
  const found = taken.value;
  const model = found?.models[chosen.value];
  return (
    <>
      <div class="title"><h1>Upload a model</h1></div>
      {!mayTrain.value && <p class="bad" role="alert">This needs a key of scope train.</p>}
      <section class="panel block" aria-label="Files">
        <div class="inside stack">
          <DropZone says={SAYS} onFiles={take} />
          {found && found.models.length === 0 && <p class="bad" role="alert">There is no model among {plural(found.others.length, "file")}: a model has a prefix-symbol.json, or is a .mar archive.</p>}
          {found && found.models.length > 1 && (
            <Choose label="Model" hint={`${plural(found.models.length, "model")} were found; they are uploaded one at a time.`} value={chosen.value} options={found.models.map((one, at) => [at, placeOf(one)])} onChoose={(at) => (chosen.value = Number(at))} />
          )}
        </div>
      </section>
      {found && model && <Upload key={`${chosen.value} ${model.name}`} model={model} others={found.others} />}
    </>
  );
}

function Upload({ model, others }: { model: Model; others: File[] }) {
  const name = useSignal(model.name);
  const at = useSignal(0);
  const error = useSignal<Error | null>(null);
  const sent = useSignal<Sent | null>(null);
  const sending = useRef<AbortController | null>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    button.current?.focus();
    return () => sending.current?.abort();
  }, []);
  const params = model.params[at.value] ?? null;
  const choice: Choice = { model, name: name.value, params };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const running = (sending.current = new AbortController());
    sent.value = { bytes: 0, of: 0 };
    error.value = null;
    try {
      const created = await send(choice, null, (now) => (sent.value = now), running.signal);
      go(link(["modules", created.name, "setup"]));
    } catch (fault) {
      if (!running.signal.aborted) error.value = fault as Error;
    }
    sent.value = null;
  };
  const faults = new Faults(error.value);
  const isTaken = (error.value as Refused | null)?.code === "already_exists";
  const atName = isTaken ? [error.value?.message ?? ""] : faults.at("name");
  return (
    <form class="panel block" aria-label="Model" onSubmit={(event) => void submit(event)}>
      <header><h2>What is sent</h2></header>
      <div class="inside stack">
        <Files choice={choice} />
        <div class="fields">
          <Fill label="Name" hint="The module's name in requests." required value={name.value} faults={atName} onFill={(text) => (name.value = text)} />
          {model.params.length > 1 && <Choose label="Parameters" hint="The newest of several epochs is proposed." value={at.value} options={model.params.map((one, index) => [index, one.name])} onChoose={(index) => (at.value = Number(index))} />}
        </div>
        {model.symbol && !params && <p>There is no file of parameters with it: the module has none until it is trained.</p>}
        {others.length > 0 && <p class="quiet">Not sent, because they belong to no model: {others.slice(0, MOST_OTHERS).map((one) => one.name).join(", ")}{others.length > MOST_OTHERS ? ` and ${others.length - MOST_OTHERS} more` : ""}.</p>}
        <Wrong faults={isTaken ? [] : faults.elsewhere("name")} />
        {sent.value ? <Sending sent={sent.value} onCancel={() => sending.current?.abort()} /> : (
          <div class="row"><button ref={button} class="primary" disabled={!mayTrain.value}>Upload</button></div>
        )}
      </div>
    </form>
  );
}

function Files({ choice: { model, params } }: { choice: Choice }) {
  const rows: [File | null, string][] = [
    [model.archive, "archive of mxnet-model-server"],
    ...[model.symbol, ...model.symbols].map((one): [File | null, string] => [one, "symbol: the graph"]),
    [params, "parameters"],
    [params && statesOf(model, params), "states of the optimizer"],
    [model.labels, "labels of the classes"],
  ];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Files that are sent">
      <table>
        <thead><tr><th scope="col">File</th><th scope="col">Taken for</th><th scope="col" class="number">Size</th></tr></thead>
        <tbody>
          {rows.map(([file, says]) => file && <tr key={file.name}><td>{file.name}</td><td>{says}</td><td class="number">{bytes(file.size)}</td></tr>)}
        </tbody>
      </table>
    </div>
  );
}

export function Sending({ sent, onCancel }: { sent: Sent; onCancel: () => void }) {
  const part = sent.of ? sent.bytes / sent.of : 0;
  const says = part < 1 ? `${bytes(sent.bytes)} of ${sent.of ? bytes(sent.of) : "…"}` : "Sent; the server reads it";
  return (
    <div class="row sending">
      <Meter part={part} label="Upload" />
      <span class="quiet" role="status">{says}</span>
      <button type="button" onClick={onCancel}>Cancel</button>
    </div>
  );
}
