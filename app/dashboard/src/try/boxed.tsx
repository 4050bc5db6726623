/** An image with boxes over it. */
import { useEffect, useRef } from "preact/hooks";
import { colour, paint } from "../shell/theme";
import type { Input } from "./inputs";

export interface Box {
  label: string;
  score: number;
  /** Left, top, right and bottom, as fractions of what the network sees. */
  edges: [number, number, number, number];
}

const MOST_PIXELS = 1024;

export function Boxed({ file, input, boxes }: { file: File; input: Input; boxes: Box[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    let isLeft = false;
    void createImageBitmap(file).then((image) => !isLeft && canvas.current && draw(canvas.current, image, input, boxes), () => {});
    return () => {
      isLeft = true;
    };
  }, [file, boxes, paint.value]);
  return <canvas ref={canvas} class="picture" role="img" aria-label={boxes.length ? `${file.name} with ${boxes.length} boxes` : file.name} />;
}

function draw(canvas: HTMLCanvasElement, image: ImageBitmap, input: Input, boxes: Box[]): void {
  const zoom = Math.min(1, MOST_PIXELS / Math.max(image.width, image.height));
  canvas.width = Math.round(image.width * zoom);
  canvas.height = Math.round(image.height * zoom);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  const [left, top, width, height] = seen(image, input).map((one) => one * zoom) as [number, number, number, number];
  pen.font = "600 14px system-ui, sans-serif";
  pen.lineWidth = 2;
  boxes.forEach(({ label, score, edges: [x0, y0, x1, y1] }, at) => {
    pen.strokeStyle = pen.fillStyle = colour(`curve-${(at % 8) + 1}`);
    pen.strokeRect(left + x0 * width, top + y0 * height, (x1 - x0) * width, (y1 - y0) * height);
    const text = `${label} ${score.toFixed(2)}`;
    const y = Math.max(0, top + y0 * height - 20);
    pen.fillRect(left + x0 * width - 1, y, pen.measureText(text).width + 8, 20);
    pen.fillStyle = colour("surface");
    pen.fillText(text, left + x0 * width + 3, y + 15);
  });
}

/** The part of an image that the network sees: left, top, width and height in pixels. */
function seen({ width, height }: ImageBitmap, { transform }: Input): [number, number, number, number] {
  if (transform?.type !== "image" || !transform.crop) return [0, 0, width, height];
  const [high = 1, wide = 1] = transform.crop as number[];
  const scale = transform.resize ? transform.resize / Math.min(width, height) : 1;
  const fit = Math.min(1, (width * scale) / wide, (height * scale) / high);
  const [w, h] = [(wide * fit) / scale, (high * fit) / scale];
  return [(width - w) / 2, (height - h) / 2, w, h];
}
