/** A dataset, chosen or uploaded. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { get, type Schemas } from "../api/client";
import { type Sent, upload } from "../api/upload";
import { bytes, plural } from "../format";
import { usePolling } from "../live/resource";
import { Choose, plain, Wrong } from "../parts/field";
import { nameOf, stem } from "../upload/files";
import { Sending } from "../upload/screen";
import type { Dataset } from "./sources";

const MOST = 200;
const KINDS: Record<string, Schemas["DatasetKind"]> = {
  npz: "npz", npy: "npy", csv: "csv", jsonl: "jsonl", ndjson: "jsonl", libsvm: "libsvm", svm: "libsvm", rec: "recordio", txt: "text",
};

interface Props {
  chosen: Dataset | null;
  faults: readonly string[];
  onChoose: (dataset: Dataset | null) => void;
}

export function DatasetChoice({ chosen, faults, onChoose }: Props) {
  const resource = usePolling(async (signal) => (await get("/v1/datasets", { query: { limit: MOST }, signal })).items, 30);
  const sent = useSignal<Sent | null>(null);
  const fault = useSignal("");
  const sending = useRef<AbortController | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const { data, error } = resource.state.value;
  const all = data ?? [];
  const send = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    const kind = KINDS[file.name.split(".").pop()?.toLowerCase() ?? ""];
    fault.value = kind ? "" : `${file.name}: a dataset is a file of these: ${Object.keys(KINDS).map((one) => `.${one}`).join(", ")}.`;
    if (!kind) return;
    const running = (sending.current = new AbortController());
    sent.value = { bytes: 0, of: 0 };
    try {
      const path = { dataset: nameOf(stem(file.name)) };
      onChoose(await upload<Dataset>("PUT", "/v1/datasets/{dataset}", { path, query: { kind }, raw: file, onProgress: (now) => (sent.value = now), signal: running.signal }));
      await resource.refresh();
    } catch (refused) {
      if (!running.signal.aborted) fault.value = (refused as Error).message;
    }
    sent.value = null;
  };
  const listed = chosen && !all.some((one) => one.name === chosen.name) ? [chosen, ...all] : all;
  return (
    <div class="stack tight">
      <div class="row ends">
        <Choose
          label="Dataset"
          value={chosen?.name ?? ""}
          options={[["", data || error ? (all.length ? "Choose one" : "There are none yet: upload one") : "Loading …"], ...plain(listed.map((one) => one.name))]}
          faults={faults}
          onChoose={(name) => onChoose(listed.find((one) => one.name === name) ?? null)}
        />
        <button type="button" onClick={() => field.current?.click()}>Upload a file</button>
        <input ref={field} type="file" hidden aria-label="Dataset file" onChange={(event) => { void send(event.currentTarget.files?.[0]); event.currentTarget.value = ""; }} />
        {chosen && <span class="quiet">{chosen.kind}, {bytes(chosen.size)}{chosen.examples == null ? "" : `, ${plural(chosen.examples, "example")}`}</span>}
      </div>
      {!chosen && <p class="quiet hint">.npz and .npy of NumPy, JSON lines, libsvm: arrays whose first axis counts the examples; .csv with names in its first line, and numbers or classes below.</p>}
      {sent.value && <Sending sent={sent.value} onCancel={() => sending.current?.abort()} />}
      <Wrong faults={[...(fault.value ? [fault.value] : []), ...(error ? [`Datasets could not be loaded. ${error.message}`] : [])]} />
    </div>
  );
}
