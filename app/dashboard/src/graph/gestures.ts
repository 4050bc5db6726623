/** Scrolling and zooming a drawing by mouse, touch and keyboard. */
import type { Drawing } from "./canvas";

export interface Wishes {
  select: (item: number | null) => void;
  /** Open or close the group of an item. */
  toggle: (item: number) => void;
  /** Select the next item along an arc, or beside the selected one. */
  step: (to: "up" | "down" | "left" | "right") => void;
}

const [STEP, FACTOR, CLICK] = [64, 1.25, 4];
const ARROWS: Record<string, ["up" | "down" | "left" | "right", number, number]> = {
  ArrowUp: ["up", 0, STEP],
  ArrowDown: ["down", 0, -STEP],
  ArrowLeft: ["left", STEP, 0],
  ArrowRight: ["right", -STEP, 0],
};

/** Listen to the events of a drawing's canvas; return a function that ends it. */
export function listen(drawing: Drawing, wishes: Wishes): () => void {
  const { canvas } = drawing;
  const ending = new AbortController();
  const { signal } = ending;
  const fingers = new Map<number, [number, number]>();
  let moved = 0;
  const at = (event: MouseEvent): [number, number] => {
    const { left, top } = canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const down = (event: PointerEvent): void => {
    canvas.setPointerCapture(event.pointerId);
    if (fingers.size === 0) moved = 0;
    fingers.set(event.pointerId, at(event));
  };
  const move = (event: PointerEvent): void => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const [x, y] = at(event);
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const distance = (one: [number, number]): number => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
      drawing.zoom(distance([x, y]) / distance(before), (x + other[0]) / 2, (y + other[1]) / 2);
      drawing.move((x - before[0]) / 2, (y - before[1]) / 2);
    } else if (moved > CLICK) {
      drawing.move(x - before[0], y - before[1]);
    }
    fingers.set(event.pointerId, [x, y]);
  };
  const up = (event: PointerEvent): void => {
    if (fingers.size === 1 && moved <= CLICK && event.type === "pointerup") wishes.select(drawing.itemAt(...at(event)));
    fingers.delete(event.pointerId);
  };
  const wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    drawing.zoom(Math.exp(-event.deltaY * lines * 0.0015), ...at(event));
  };
  const twice = (event: MouseEvent): void => {
    const item = drawing.itemAt(...at(event));
    if (item !== null) wishes.toggle(item);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(drawing, wishes, event)) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  canvas.addEventListener("pointerdown", down, { signal });
  canvas.addEventListener("pointermove", move, { signal });
  canvas.addEventListener("pointerup", up, { signal });
  canvas.addEventListener("pointercancel", up, { signal });
  canvas.addEventListener("wheel", wheel, { signal, passive: false });
  canvas.addEventListener("dblclick", twice, { signal });
  canvas.addEventListener("keydown", key, { signal });
  return () => ending.abort();
}

function press(drawing: Drawing, wishes: Wishes, { key, shiftKey }: KeyboardEvent): boolean {
  const arrow = ARROWS[key];
  if (arrow && shiftKey) wishes.step(arrow[0]);
  else if (arrow) drawing.move(arrow[1], arrow[2]);
  else if (key === "+" || key === "=") drawing.zoom(FACTOR);
  else if (key === "-") drawing.zoom(1 / FACTOR);
  else if (key === "0") drawing.fit();
  else if (key === "Enter" && drawing.selected !== null) wishes.toggle(drawing.selected);
  else if (key === "Escape" && drawing.selected !== null) wishes.select(null);
  else return false;
  return true;
}
