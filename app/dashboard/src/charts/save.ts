/** Charts as files. */
import type { Curve } from "./curves";
import { aligned } from "./curves";
import { colour } from "../shell/theme";

export function saveCsv(name: string, xLabel: string, curves: Curve[]): void {
  const [xs, ...columns] = aligned(curves);
  const head = [xLabel, ...curves.map((one) => one.label + (one.isFaint ? " (raw)" : ""))];
  const rows = Array.from(xs, (x, at) => [x, ...columns.map((column) => column[at] ?? "")].join(","));
  const text = [head.map(quoted).join(","), ...rows, ""].join("\n");
  save(`${name}.csv`, new Blob([text], { type: "text/csv" }));
}

function quoted(text: string): string {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function savePng(name: string, title: string, drawn: HTMLCanvasElement, curves: Curve[]): void {
  const ratio = devicePixelRatio;
  const head = 48 * ratio;
  const canvas = document.createElement("canvas");
  canvas.width = drawn.width;
  canvas.height = drawn.height + head;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.fillStyle = colour("surface");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = colour("ink");
  pen.font = `600 ${14 * ratio}px system-ui, sans-serif`;
  pen.fillText(title, 16 * ratio, 20 * ratio);
  pen.font = `${12 * ratio}px system-ui, sans-serif`;
  let x = 16 * ratio;
  for (const one of curves.filter((curve) => !curve.isFaint)) {
    pen.fillStyle = colour(`curve-${one.colour}`);
    pen.fillText(one.label, x, 40 * ratio);
    x += pen.measureText(one.label).width + 16 * ratio;
  }
  pen.drawImage(drawn, 0, head);
  canvas.toBlob((blob) => blob && save(`${name}.png`, blob));
}

function save(name: string, blob: Blob): void {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name.replace(/[^\w.-]+/g, "-");
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}
