/** Draws the visible part of a scene on a canvas, and scrolls and zooms. */
import { colour } from "../shell/theme";
import { FONT, LINE, type Scene, TITLE_FONT, TOP } from "./scene";

export interface Heat {
  /** From 0 to 1, by item; null for items that were not measured. */
  shares: (number | null)[];
  says: string[];
}

const [LEAST_SCALE, MOST_SCALE, MARGIN, TEXT_SCALE, READABLE] = [0.001, 2.5, 24, 0.3, 0.85];
const [HOTTEST, CORNER, ARROW] = [0.45, 6, 4];
/** An item whose centre is closer to an edge than this may be cut off, in pixels. */
const EDGE = 48;

export class Drawing {
  x = 0;
  y = 0;
  scale = 1;
  scene: Scene | null = null;
  heat: Heat | null = null;
  selected: number | null = null;
  private frame = 0;
  private width = 0;
  private colours: Record<string, string> = {};
  private bounds: Float32Array = new Float32Array();
  private readonly pen: CanvasRenderingContext2D | null;

  constructor(readonly canvas: HTMLCanvasElement) {
    this.pen = canvas.getContext("2d", { alpha: false });
    this.repaint();
  }

  /** Read the theme's colours again. */
  repaint(): void {
    const names = ["ground", "surface", "raised", "line", "ink", "ink-2", "accent", "curve-2"];
    this.colours = Object.fromEntries(names.map((name) => [name, colour(name)]));
    this.redraw();
  }

  resize(): void {
    const { canvas } = this;
    if (this.width) this.x += (canvas.clientWidth - this.width) / 2; // keeps the centre in place
    this.width = canvas.clientWidth;
    canvas.width = Math.round(this.width * devicePixelRatio);
    canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
    this.draw(); // at once, because setting the size has cleared the canvas
  }

  show(scene: Scene): void {
    this.scene = scene;
    this.bounds = boundsOf(scene);
    this.redraw();
  }

  fit(): void {
    const { scene, canvas } = this;
    if (!scene) return;
    const [width, height] = [canvas.clientWidth - 2 * MARGIN, canvas.clientHeight - 2 * MARGIN];
    this.scale = Math.min(1, Math.max(LEAST_SCALE, Math.min(width / scene.width, height / scene.height)));
    this.x = (canvas.clientWidth - scene.width * this.scale) / 2;
    this.y = Math.max(MARGIN, (canvas.clientHeight - scene.height * this.scale) / 2);
    this.redraw();
  }

  /** Show the top of the graph, large enough to be read. */
  begin(): void {
    this.fit();
    if (this.scale >= READABLE || !this.scene) return;
    this.scale = READABLE;
    this.x = this.canvas.clientWidth / 2 - (this.scene.centres[0] ?? 0) * this.scale;
    this.y = MARGIN;
    this.redraw();
  }

  move(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
    this.redraw();
  }

  /** Change the scale; the point at (x, y) of the canvas stays in place. */
  zoom(factor: number, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2): void {
    const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.redraw();
  }

  /** Centre an item, large enough to be read. */
  centre(item: number): void {
    const { scene, canvas } = this;
    if (!scene) return;
    this.scale = Math.max(this.scale, READABLE);
    this.x = canvas.clientWidth / 2 - (scene.centres[item * 2] ?? 0) * this.scale;
    this.y = canvas.clientHeight / 2 - (scene.centres[item * 2 + 1] ?? 0) * this.scale;
    this.redraw();
  }

  /** Whether an item is visible, and large enough to be read. */
  isReadable(item: number): boolean {
    const [centreX = 0, centreY = 0] = this.scene?.centres.slice(item * 2, item * 2 + 2) ?? [];
    const [x, y] = [centreX * this.scale + this.x, centreY * this.scale + this.y];
    const { clientWidth, clientHeight } = this.canvas;
    return this.scale >= TEXT_SCALE && x > EDGE && y > EDGE && x < clientWidth - EDGE && y < clientHeight - EDGE;
  }

  itemAt(x: number, y: number): number | null {
    const { scene } = this;
    if (!scene) return null;
    const [left, top] = [(x - this.x) / this.scale, (y - this.y) / this.scale];
    const found = scene.boxes.findIndex(({ width, height }, at) => Math.abs(left - (scene.centres[at * 2] ?? 0)) <= width / 2 && Math.abs(top - (scene.centres[at * 2 + 1] ?? 0)) <= height / 2);
    return found < 0 ? null : found;
  }

  redraw(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
  }

  private draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { pen, scene, colours } = this;
    if (!pen) return;
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.fillStyle = colours.ground ?? "";
    pen.fillRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    if (scene) {
      pen.translate(this.x, this.y);
      pen.scale(this.scale, this.scale);
      this.drawArcs(pen, scene);
      this.drawBoxes(pen, scene);
    }
  }

  /** The visible part, in the scene's coordinates. */
  private sight(): [number, number, number, number] {
    const { x, y, scale, canvas } = this;
    return [-x / scale, -y / scale, (canvas.clientWidth - x) / scale, (canvas.clientHeight - y) / scale];
  }

  private drawArcs(pen: CanvasRenderingContext2D, scene: Scene): void {
    const [left, top, right, bottom] = this.sight();
    const { bounds, colours } = this;
    const plain: number[] = [];
    const marked: number[] = [];
    scene.arcs.forEach(([from, to], at) => {
      const [x0 = 0, y0 = 0, x1 = 0, y1 = 0] = bounds.subarray(at * 4, at * 4 + 4);
      if (x1 < left || x0 > right || y1 < top || y0 > bottom) return;
      (from === this.selected || to === this.selected ? marked : plain).push(at);
    });
    for (const [arcs, stroke, width] of [[plain, colours["ink-2"], 1], [marked, colours.accent, 2]] as const) {
      pen.strokeStyle = pen.fillStyle = stroke ?? "";
      pen.lineWidth = Math.max(width, 0.75 / this.scale);
      pen.beginPath();
      for (const at of arcs) trace(pen, scene, at);
      pen.stroke();
      if (this.scale < TEXT_SCALE) continue;
      pen.beginPath();
      for (const at of arcs) arrow(pen, scene, at);
      pen.fill();
    }
  }

  private drawBoxes(pen: CanvasRenderingContext2D, scene: Scene): void {
    const [left, top, right, bottom] = this.sight();
    scene.boxes.forEach(({ width, height }, at) => {
      const [x, y] = [(scene.centres[at * 2] ?? 0) - width / 2, (scene.centres[at * 2 + 1] ?? 0) - height / 2];
      if (x + width >= left && x <= right && y + height >= top && y <= bottom) this.drawBox(pen, scene, at, x, y);
    });
  }

  private drawBox(pen: CanvasRenderingContext2D, scene: Scene, at: number, x: number, y: number): void {
    const { colours, heat } = this;
    const box = scene.boxes[at];
    if (!box) return;
    const share = heat?.shares[at] ?? null;
    pen.beginPath();
    pen.roundRect(x, y, box.width, box.height, box.kind === "input" ? box.height / 2 : CORNER);
    const isFar = this.scale < TEXT_SCALE;
    pen.fillStyle = (isFar ? colours.line : box.kind === "operator" ? colours.surface : colours.raised) ?? "";
    pen.fill();
    if (share !== null) {
      pen.globalAlpha = HOTTEST * share;
      pen.fillStyle = colours["curve-2"] ?? "";
      pen.fill();
      pen.globalAlpha = 1;
    }
    const isSelected = at === this.selected;
    pen.strokeStyle = (isSelected ? colours.accent : isFar || box.kind === "group" ? colours["ink-2"] : colours.line) ?? "";
    pen.lineWidth = Math.max(isSelected ? 2.5 : 1, (isSelected ? 2 : 0.5) / this.scale);
    pen.stroke();
    if (isFar) return;
    pen.textBaseline = "middle";
    pen.fillStyle = colours.ink ?? "";
    pen.font = TITLE_FONT;
    pen.fillText(box.title, x + 12, y + TOP + LINE / 2);
    pen.font = FONT;
    if (share === null) pen.fillStyle = colours["ink-2"] ?? "";
    box.lines.forEach((line, index) => pen.fillText(line, x + 12, y + TOP + LINE * (index + 1.5)));
    const says = heat?.says[at];
    if (!says) return;
    pen.textAlign = "right";
    pen.fillText(says, x + box.width - 12, y + TOP + LINE * 2.5);
    pen.textAlign = "left";
  }
}

function boundsOf({ arcs, paths, centres, boxes }: Scene): Float32Array {
  const bounds = new Float32Array(arcs.length * 4);
  arcs.forEach(([from, to], at) => {
    const [xs, ys] = [[centres[from * 2] ?? 0, centres[to * 2] ?? 0], [centres[from * 2 + 1] ?? 0, centres[to * 2 + 1] ?? 0]];
    (paths[at] ?? []).forEach((one, index) => (index % 2 ? ys : xs).push(one));
    const room = Math.max(boxes[from]?.width ?? 0, boxes[to]?.width ?? 0) / 2;
    bounds.set([Math.min(...xs) - room, Math.min(...ys), Math.max(...xs) + room, Math.max(...ys)], at * 4);
  });
  return bounds;
}

/** Trace an arc from the bottom of one box through its points to the top of the other, vertical at both ends. */
function trace(pen: CanvasRenderingContext2D, { arcs, paths, centres, boxes }: Scene, at: number): void {
  const [from, to] = arcs[at] ?? [0, 0];
  let [x, y] = [centres[from * 2] ?? 0, (centres[from * 2 + 1] ?? 0) + (boxes[from]?.height ?? 0) / 2];
  pen.moveTo(x, y);
  const [endX, endY] = headOf(centres, boxes, to);
  const points = [...(paths[at] ?? []), endX, endY];
  for (let index = 0; index < points.length; index += 2) {
    const [nextX = 0, nextY = 0] = [points[index], points[index + 1]];
    const middle = (y + nextY) / 2;
    pen.bezierCurveTo(x, middle, nextX, middle, nextX, nextY);
    [x, y] = [nextX, nextY];
  }
}

function headOf(centres: number[], boxes: { height: number }[], at: number): [number, number] {
  return [centres[at * 2] ?? 0, (centres[at * 2 + 1] ?? 0) - (boxes[at]?.height ?? 0) / 2];
}

function arrow(pen: CanvasRenderingContext2D, { arcs, centres, boxes }: Scene, at: number): void {
  const [x, y] = headOf(centres, boxes, arcs[at]?.[1] ?? 0);
  pen.moveTo(x, y);
  pen.lineTo(x - ARROW, y - 2 * ARROW);
  pen.lineTo(x + ARROW, y - 2 * ARROW);
}
