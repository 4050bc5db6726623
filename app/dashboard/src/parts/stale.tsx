/** Tells that the data shown is old, and why. */
import { clock } from "../format";
import type { Loaded } from "../live/resource";

export function Stale({ of, what }: { of: Loaded<unknown>; what: string }) {
  if (!of.error || of.at === 0) return null;
  return <span class="quiet" role="status">{what} of {clock(of.at)}: {of.error.message}</span>;
}

/** Shown instead of data that was never loaded. */
export function Missing({ of, what }: { of: Loaded<unknown>; what: string }) {
  if (of.error) return <p class="empty bad" role="alert">{what} could not be loaded. {of.error.message}</p>;
  return <p class="empty">Loading {what.toLowerCase()} …</p>;
}
