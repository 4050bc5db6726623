/** A field for drawing a digit, white on black as in MNIST. */
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type Given, nothing } from "./given";
import { drawnSize, type Input, nested } from "./inputs";

const ZOOM = 10;
const PEN = 2;
const RANGES: Record<string, (value: number) => number> = {
  "0 to 1": (value) => value / 255,
  "0 to 255": (value) => value,
  "-1 to 1": (value) => value / 127.5 - 1,
};

export function Draw({ input, onGive }: { input: Input; onGive: (given: Given) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const range = useSignal("0 to 1");
  const isEmpty = useSignal(true);
  const last = useRef<[number, number] | null>(null);
  const [height, width] = drawnSize(input.sizes) ?? [28, 28];
  const isPicture = input.transform?.type === "image";
  const clear = (): void => {
    const pen = canvas.current?.getContext("2d");
    if (pen) pen.fillRect(0, 0, width * ZOOM, height * ZOOM);
    isEmpty.value = true;
    onGive(nothing("draw something"));
  };
  useLayoutEffect(clear, [input.name]);
  const move = (event: PointerEvent): void => {
    const field = canvas.current;
    const pen = field?.getContext("2d");
    if (!field || !pen || !last.current) return;
    const box = field.getBoundingClientRect();
    const to: [number, number] = [((event.clientX - box.left) / box.width) * field.width, ((event.clientY - box.top) / box.height) * field.height];
    Object.assign(pen, { strokeStyle: "#fff", lineWidth: PEN * ZOOM, lineCap: "round" });
    pen.beginPath();
    pen.moveTo(...last.current);
    pen.lineTo(...to);
    pen.stroke();
    last.current = to;
    isEmpty.value = false;
  };
  const down = (event: PointerEvent): void => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return;
    canvas.current?.setPointerCapture(event.pointerId);
    last.current = [((event.clientX - box.left) / box.width) * width * ZOOM, ((event.clientY - box.top) / box.height) * height * ZOOM];
    move(event);
  };
  const give = (): void => {
    last.current = null;
    const small = document.createElement("canvas");
    Object.assign(small, { width, height });
    const pen = small.getContext("2d");
    if (!pen || !canvas.current || isEmpty.value) return;
    pen.imageSmoothingQuality = "high";
    pen.drawImage(canvas.current, 0, 0, width, height);
    if (isPicture) {
      small.toBlob((blob) => blob && onGive({ kind: "file", file: new File([blob], "drawing.png", { type: "image/png" }) }));
      return;
    }
    const { data } = pen.getImageData(0, 0, width, height);
    const scaled = RANGES[range.value] ?? Number;
    const values = Array.from({ length: width * height }, (_, at) => Number(scaled(data[at * 4] ?? 0).toFixed(3)));
    onGive({ kind: "tensor", value: nested(values, [1, ...input.sizes.map((one) => one ?? 1)]) });
  };
  return (
    <div class="stack tight">
      <p class="quiet">Draw in the square, by mouse or finger.</p>
      <canvas ref={canvas} class="drawing" width={width * ZOOM} height={height * ZOOM} role="img" aria-label={`Drawing for ${input.name}`} onPointerDown={down} onPointerMove={move} onPointerUp={give} onPointerCancel={give} />
      <div class="row">
        <button type="button" class="small" onClick={clear}>Clear</button>
        {!isPicture && (
          <label class="quiet">
            Black to white is
            <select class="small" value={range} onChange={(event) => { range.value = event.currentTarget.value; give(); }}>
              {Object.keys(RANGES).map((one) => <option key={one}>{one}</option>)}
            </select>
          </label>
        )}
      </div>
    </div>
  );
}
