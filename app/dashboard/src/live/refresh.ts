/** Fetching resources again when events report changes. */
import { useEffect } from "preact/hooks";
import type { EventView } from "../api/client";
import { onEvent, onResume } from "./events";
import { type Resource, throttled } from "./resource";

/** Refresh a resource at events that concern it, at most once a second, and when a broken stream is back. */
export function useRefreshOn(resource: Resource<unknown>, concerns: (event: EventView) => boolean = () => true): void {
  useEffect(() => {
    const refresh = throttled(() => void resource.refresh(), 1);
    const ends = [onEvent((event) => concerns(event) && refresh()), onResume(refresh)];
    return () => {
      refresh.cancel();
      for (const end of ends) end();
    };
  }, [resource]);
}
