/** The page's place, kept behind the `#`, so that links work below any path and without the server. */
import { computed, signal } from "@preact/signals";
import { throttled } from "./live/resource";

interface Place {
  /** Parts between slashes: `["jobs", "12"]`. */
  parts: string[];
  query: URLSearchParams;
}

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const place = computed<Place>(() => {
  const [path = "", query = ""] = hash.value.replace(/^#/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
});

/** Decode a part of an address; one with an invalid percent sign stays as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(parts: (string | number)[], query: Record<string, string> = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value !== "");
  const text = new URLSearchParams(kept).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

export function go(to: string): void {
  hash.value = location.hash = to;
}

/** Throttled, because browsers refuse hundreds of calls while a slider is moved. */
const keep = throttled(() => history.replaceState(null, "", hash.value), 0.4);

/** Change the query without a new entry in the browser's history. */
export function replaceQuery(changes: Record<string, string>): void {
  const { parts, query } = place.value;
  const next = { ...Object.fromEntries(query), ...changes };
  hash.value = link(parts, next);
  keep();
}
