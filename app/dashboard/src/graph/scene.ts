/** The boxes of a graph with their lines of text, and the arcs between them. */
import { count, shape } from "../format";
import type { GraphData, GraphNode, Item, Shown } from "./grouping";
import type { Placed } from "./layered";

export interface SceneBox {
  title: string;
  lines: string[];
  width: number;
  height: number;
  kind: "operator" | "input" | "group";
}

export interface Scene extends Placed {
  items: Item[];
  boxes: SceneBox[];
  arcs: [number, number][];
}

const [LEAST_WIDTH, MOST_WIDTH, SIDES, TIME_ROOM] = [112, 264, 24, 64];
export const [LINE, TOP] = [16, 8];
export const [TITLE_FONT, FONT] = ["600 13px system-ui, sans-serif", "12px system-ui, sans-serif"];

const pen = document.createElement("canvas").getContext("2d");

function widthOf(text: string, font: string): number {
  if (!pen) return text.length * 7;
  pen.font = font;
  return pen.measureText(text).width;
}

/** Shorten a text in its middle, because names differ at their ends. */
function fitted(text: string, font: string, most: number): string {
  if (widthOf(text, font) <= most) return text;
  let kept = Math.floor((text.length * most) / widthOf(text, font));
  for (; kept > 4; kept -= 1) {
    const head = Math.ceil(kept / 3);
    const short = `${text.slice(0, head)}…${text.slice(text.length - (kept - head))}`;
    if (widthOf(short, font) <= most) return short;
  }
  return `${text.slice(0, 3)}…`;
}

/** As many of several shapes as there is room for. */
function begun(text: string, font: string, most: number): string {
  const parts = text.split(", ");
  let short = text;
  while (parts.length > 1 && widthOf(short, font) > most) {
    parts.pop();
    short = `${parts.join(", ")}, …`;
  }
  return fitted(short, font, most);
}

export function boxesOf(graph: GraphData, shown: Shown, hasParameters: boolean): SceneBox[] {
  return shown.items.map((item) => {
    const node = item.node === null ? undefined : graph.nodes[item.node];
    const title = item.group ? `▸ ${item.group.prefix}` : (node?.operator ?? node?.role ?? "");
    const lines = item.group ? [`${count(item.members.length)} operators`, shapesOut(graph, item.members)] : node ? linesOf(node, hasParameters) : [];
    const beside = (at: number): number => (at === 1 && node?.operator !== null ? TIME_ROOM : 0);
    const widest = Math.max(widthOf(title, TITLE_FONT), ...lines.map((line, at) => widthOf(line, FONT) + beside(at)));
    const width = Math.min(MOST_WIDTH, Math.max(LEAST_WIDTH, Math.ceil(widest) + SIDES));
    return {
      title: fitted(title, TITLE_FONT, width - SIDES),
      lines: lines.map((line, at) => (at === 1 ? begun : fitted)(line, FONT, width - SIDES - beside(at))),
      width,
      height: 2 * TOP + LINE * (1 + lines.length),
      kind: item.group ? "group" : node?.operator == null ? "input" : "operator",
    };
  });
}

function linesOf(node: GraphNode, hasParameters: boolean): string[] {
  const lines = [node.name, said(node.outputs)];
  return hasParameters ? [...lines, ...node.parameters.map((one) => `${one.input} ${shape(one.shape)}`)] : lines;
}

/** Shapes of a group's outputs: those that nodes outside read, or that nothing reads. */
function shapesOut(graph: GraphData, members: number[]): string {
  const own = new Set(members);
  const [within, without] = [new Set<string>(), new Set<string>()];
  graph.nodes.forEach((node, reader) => {
    for (const input of node.inputs) (own.has(reader) ? within : without).add(`${input.node} ${input.output}`);
  });
  return said(members.flatMap((at) => (graph.nodes[at]?.outputs ?? []).filter((_, output) => without.has(`${at} ${output}`) || !within.has(`${at} ${output}`))));
}

/** Distinct shapes, each with the number of outputs that have it. */
function said(outputs: GraphNode["outputs"]): string {
  const counts = new Map<string, number>();
  for (const { shape } of outputs) {
    const text = shape ? shape.join("×") || "1" : "?";
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return [...counts].map(([text, many]) => (many > 1 ? `${many} of ${text}` : text)).join(", ");
}
