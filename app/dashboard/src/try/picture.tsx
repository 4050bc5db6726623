/** An image for an input, and its transform into numbers. */
import { useSignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { put } from "../api/client";
import { mayTrain } from "../api/session";
import { Choose, plain, Wrong } from "../parts/field";
import { DropZone } from "../upload/drop";
import { Boxed } from "./boxed";
import { type Given, nothing } from "./given";
import type { Input } from "./inputs";

const NUMBERS: Record<string, object> = {
  "0 to 255": {},
  "0 to 1": { std: [255] },
  "-1 to 1": { mean: [127.5], std: [127.5] },
  "normalized by ImageNet's mean and deviation": { mean: [123.675, 116.28, 103.53], std: [58.395, 57.12, 57.375] },
};

interface Props {
  module: string;
  input: Input;
  given: Given;
  onGive: (given: Given) => void;
  onChange: () => Promise<void>;
}

export function Picture({ module, input, given, onGive, onChange }: Props) {
  const isOpen = useSignal(input.transform === null);
  const fault = useSignal("");
  const hasImage = given.kind === "file" && given.file.type.startsWith("image/");
  useLayoutEffect(() => {
    if (!hasImage) onGive(nothing("choose an image"));
  }, [input.name]);
  const take = ([file]: File[]): boolean => {
    fault.value = file && !file.type.startsWith("image/") ? `${file.name} is not an image.` : "";
    if (file && !fault.value) onGive({ kind: "file", file });
    return !fault.value;
  };
  const isNew = input.transform === null;
  const done = async (): Promise<void> => {
    await onChange();
    isOpen.value = false;
  };
  if (isOpen.value) return <Transform module={module} input={input} onDone={done} onFiles={isNew ? take : null} fault={fault.value} />;
  return (
    <div class="stack tight">
      <DropZone says="Drop an image here." onFiles={take} isOfOne />
      <Wrong faults={fault.value ? [fault.value] : []} />
      {given.kind === "file" && <><p class="quiet hint">{given.file.name}</p><Boxed file={given.file} input={input} boxes={[]} /></>}
      {mayTrain.value && <div><button type="button" class="small" onClick={() => (isOpen.value = true)}>How it becomes numbers</button></div>}
    </div>
  );
}

interface TransformProps {
  module: string;
  input: Input;
  onDone: () => Promise<void>;
  /** Takes an image and then sets the transform shown; null if it is only set. */
  onFiles: ((files: File[]) => boolean) | null;
  fault: string;
}

/** Sets the input's transform on the server, for everybody who sends images. */
function Transform({ module, input, onDone, onFiles, fault: ofFile }: TransformProps) {
  const isLast = input.sizes.length === 3 && (input.sizes[2] ?? 9) <= 3;
  const [channels, height, width] = isLast ? [input.sizes[2], ...input.sizes] : input.sizes;
  const color = useSignal(channels === 1 ? "gray" : "rgb");
  const numbers = useSignal(Object.keys(NUMBERS)[input.dtype === "uint8" ? 0 : 1] ?? "");
  const fit = useSignal("size");
  const fault = useSignal("");
  const size = [height, width];
  const set = async (): Promise<void> => {
    fault.value = "";
    const how = fit.value === "size" ? { size } : { resize: Math.round(Math.min(height ?? 1, width ?? 1) * 1.143), crop: size };
    const body = { color: color.value, layout: isLast ? "NHWC" : "NCHW", dtype: input.dtype === "uint8" ? "uint8" : "float32", ...NUMBERS[numbers.value], ...(height && width ? how : {}) };
    try {
      await put("/v1/modules/{module}/transforms/{input}", { path: { module, input: input.name }, body });
      await onDone();
    } catch (error) {
      fault.value = (error as Error).message;
    }
  };
  return (
    <div class="stack tight">
      <p>How an image becomes <code>{input.name}</code>, as in the training of the network. The server keeps it for everybody who sends images.</p>
      <div class="fields">
        <Choose label="Colours" value={color.value} options={[["rgb", "red, green, blue"], ["bgr", "blue, green, red (OpenCV)"], ["gray", "gray"]]} onChoose={(one) => (color.value = one)} />
        <Choose label="Numbers" value={numbers.value} options={plain(Object.keys(NUMBERS))} onChoose={(one) => (numbers.value = one)} />
        {height && width ? <Choose label={`Made ${height} by ${width} by`} value={fit.value} options={[["size", "resizing"], ["crop", "cropping the center"]]} onChoose={(one) => (fit.value = one)} /> : null}
      </div>
      {onFiles && mayTrain.value && <DropZone says="Drop an image here: it is transformed as chosen above." onFiles={(files) => void (onFiles(files) && set())} isOfOne />}
      <Wrong faults={[ofFile, fault.value].filter(Boolean)} />
      <div><button type="button" class="primary" disabled={!mayTrain.value} onClick={() => void set()}>Set it</button></div>
      {!mayTrain.value && <p class="quiet">This needs a key of scope train.</p>}
    </div>
  );
}
