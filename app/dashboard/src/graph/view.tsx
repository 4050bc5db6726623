/** The drawing of a graph, laid out in a worker, and the user's actions on it. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { plural } from "../format";
import { paint } from "../shell/theme";
import { Drawing, type Heat } from "./canvas";
import { listen, type Wishes } from "./gestures";
import type { GraphData, Shown } from "./grouping";
import type { LayoutRequest } from "./layout-worker";
import type { Placed } from "./layered";
import { boxesOf, type Scene } from "./scene";

interface Props {
  graph: GraphData;
  shown: Shown;
  hasParameters: boolean;
  heat: Heat | null;
  selected: number | null;
  onSelect: (item: number | null) => void;
  onToggle: (item: number) => void;
}

interface Answer {
  id: number;
  layout: Placed;
}

export function GraphView(props: Props) {
  const { graph, shown, hasParameters, heat, selected } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawing = useRef<Drawing | null>(null);
  const wishes = useRef<Wishes | null>(null);
  const waiting = useSignal(true);
  const fault = useSignal(false);
  const worker = useMemo(() => new Worker(new URL("./layout-worker.ts", import.meta.url), { type: "module" }), []);
  useEffect(() => () => worker.terminate(), []);
  useLayoutEffect(() => {
    if (!canvas.current) return;
    const made = (drawing.current = new Drawing(canvas.current));
    const watch = new ResizeObserver(() => made.resize());
    watch.observe(canvas.current);
    const end = listen(made, {
      select: (item) => wishes.current?.select(item),
      toggle: (item) => wishes.current?.toggle(item),
      step: (to) => wishes.current?.step(to),
    });
    return () => {
      end();
      watch.disconnect();
      made.stop();
    };
  }, []);
  wishes.current = {
    select: props.onSelect,
    toggle: props.onToggle,
    step: (to) => {
      const next = nextOf(drawing.current?.scene ?? null, selected, to);
      if (next === null) return;
      props.onSelect(next);
      drawing.current?.centre(next);
    },
  };
  useEffect(() => {
    const boxes = boxesOf(graph, shown, hasParameters);
    const id = Date.now() + Math.random();
    waiting.value = true;
    worker.onerror = () => (fault.value = true);
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      if (data.id !== id || !drawing.current) return;
      waiting.value = false;
      place(drawing.current, { ...data.layout, boxes, items: shown.items, arcs: shown.arcs });
    };
    const request: LayoutRequest = { id, boxes: boxes.map(({ width, height }) => ({ width, height })), arcs: shown.arcs };
    worker.postMessage(request);
  }, [graph, shown, hasParameters]);
  useEffect(() => {
    if (!drawing.current) return;
    drawing.current.selected = selected;
    drawing.current.heat = heat;
    drawing.current.redraw();
  }, [selected, heat]);
  useEffect(() => drawing.current?.repaint(), [paint.value]);
  useEffect(() => {
    const { current } = drawing;
    if (current?.scene?.items === shown.items && selected !== null && !current.isReadable(selected)) current.centre(selected);
  }, [selected, waiting.value]);
  const zoom = (factor: number): void => drawing.current?.zoom(factor);
  return (
    <div class="graph-place">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-busy={waiting.value || drawing.current?.scene?.items !== shown.items}
        aria-label={`Graph of ${plural(shown.items.length, "box").replace("boxs", "boxes")}. Arrow keys move it, plus and minus change its size, 0 shows all of it; with Shift arrows go from box to box, Enter opens or closes a group. The table below has the same.`}
      />
      <span class="graph-tools" role="group" aria-label="Size">
        <button class="small" aria-label="Larger" onClick={() => zoom(1.25)}>+</button>
        <button class="small" aria-label="Smaller" onClick={() => zoom(0.8)}>−</button>
        <button class="small" onClick={() => drawing.current?.fit()}>Fit</button>
      </span>
      {fault.value ? <p class="graph-waiting bad" role="alert">The graph could not be laid out; the table below has it.</p> : waiting.value && <p class="graph-waiting" role="status">Laying out {plural(shown.items.length, "node")} …</p>}
    </div>
  );
}

/** Show a scene, centred on the selected item if there was a scene before, else from its top. */
function place(drawing: Drawing, scene: Scene): void {
  const before = drawing.scene;
  const kept = before && drawing.selected !== null && drawing.selected < scene.items.length ? drawing.selected : null;
  drawing.show(scene);
  if (kept !== null) drawing.centre(kept);
  else drawing.begin();
}

/** The item that an arc leads to, up or down, or the nearest one to the left or right. */
function nextOf(scene: Scene | null, selected: number | null, to: "up" | "down" | "left" | "right"): number | null {
  if (!scene) return null;
  if (selected === null) return 0;
  const x = (at: number): number => scene.centres[at * 2] ?? 0;
  const y = (at: number): number => scene.centres[at * 2 + 1] ?? 0;
  if (to === "down") return scene.arcs.find(([from]) => from === selected)?.[1] ?? null;
  if (to === "up") return scene.arcs.find(([, end]) => end === selected)?.[0] ?? null;
  const side = to === "left" ? -1 : 1;
  let best: number | null = null;
  scene.items.forEach((_, at) => {
    const ahead = (x(at) - x(selected)) * side;
    if (ahead <= 0 || Math.abs(y(at) - y(selected)) > 48) return;
    if (best === null || ahead < (x(best) - x(selected)) * side) best = at;
  });
  return best;
}
