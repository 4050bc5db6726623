/** Lays graphs out in a worker, so that the page stays responsive. */
import { type Arc, type Box, placed } from "./layered";

export interface LayoutRequest {
  id: number;
  boxes: Box[];
  arcs: Arc[];
}

addEventListener("message", ({ data }: MessageEvent<LayoutRequest>) => {
  const { id, boxes, arcs } = data;
  postMessage({ id, layout: placed(boxes, arcs) });
});
