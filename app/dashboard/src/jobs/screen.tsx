/** All jobs, with filters, one page at a time. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../api/client";
import { useRefreshOn } from "../live/refresh";
import { usePolling } from "../live/resource";
import { Missing, Stale } from "../parts/stale";
import { link, place, replaceQuery } from "../router";
import { useSearchField } from "../shell/keyboard";
import { KINDS, STATUSES } from "./states";
import { JobTable } from "./table";

const PAGE = 50;
const MOST_NAMES = 100;
const TYPING_MS = 200;

export function JobsScreen() {
  document.title = "Jobs · modserve";
  const { query } = place.value;
  const [module, kind, status] = ["module", "kind", "status"].map((name) => query.get(name) ?? "");
  const cursors = useSignal<string[]>([]);
  const cursor = cursors.value.at(-1);
  const names = usePolling(moduleNames, 60).state.value;
  const modules = matching(module ?? "", names.data ?? []);
  const resource = usePolling(
    (signal) => get("/v1/jobs", { query: { module: modules, kind, status, cursor, limit: PAGE }, signal }),
    15,
    [modules, kind, status, cursor],
  );
  useRefreshOn(resource, (event) => event.job_id !== null);
  const loaded = resource.state.value;
  const jobs = loaded.data?.items ?? [];
  const next = loaded.data?.next_cursor;
  const isFiltered = module || kind || status;
  const change = (changes: Record<string, string>): void => {
    cursors.value = [];
    replaceQuery(changes);
  };
  return (
    <>
      <div class="title">
        <h1>Jobs</h1>
        <Stale of={loaded} what="Jobs" />
        <Filters names={names.data ?? []} module={module ?? ""} kind={kind ?? ""} status={status ?? ""} onChange={change} />
      </div>
      <section class="panel" aria-label="Jobs">
        {!loaded.data ? <Missing of={loaded} what="Jobs" /> : jobs.length > 0 ? <JobTable jobs={jobs} onChange={() => void resource.refresh()} /> : (
          <p class="empty">
            {isFiltered ? "No job matches the filter." : <>There are no jobs yet. Train one of the <a href={link(["modules"])}>modules</a>, or see how <a href="./docs#fit_module"><code>POST v1/modules/NAME/fit</code></a> does.</>}
          </p>
        )}
      </section>
      {(cursor ?? next) && (
        <div class="row pages">
          <button disabled={!cursor} onClick={() => (cursors.value = cursors.value.slice(0, -1))}>Newer</button>
          <button disabled={!next} onClick={() => next && (cursors.value = [...cursors.value, next])}>Older</button>
        </div>
      )}
    </>
  );
}

async function moduleNames(signal: AbortSignal): Promise<string[]> {
  return (await get("/v1/modules", { query: { limit: 200 }, signal })).items.map((one) => one.name);
}

/** The names that contain a text, and the text itself: a deleted module's jobs may still exist. */
function matching(text: string, names: string[]): string {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return "";
  const found = names.filter((one) => one.toLowerCase().includes(wanted));
  return [...new Set([text.trim(), ...found])].slice(0, MOST_NAMES).join(",");
}

interface FilterProps {
  names: string[];
  module: string;
  kind: string;
  status: string;
  onChange: (changes: Record<string, string>) => void;
}

function Filters({ names, module, kind, status, onChange }: FilterProps) {
  const field = useSearchField();
  // The filter is applied when the user pauses typing.
  const typing = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const type = (text: string): void => {
    clearTimeout(typing.current);
    typing.current = setTimeout(() => onChange({ module: text.trim() }), TYPING_MS);
  };
  useEffect(() => () => clearTimeout(typing.current), []);
  useEffect(() => {
    const input = field.current;
    if (input && input !== document.activeElement) input.value = module;
  }, [module]);
  const chosen = new Set(status.split(",").filter(Boolean));
  const toggle = (one: string): void => {
    if (!chosen.delete(one)) chosen.add(one);
    onChange({ status: STATUSES.filter((each) => chosen.has(each)).join(",") });
  };
  return (
    <div class="row push filters" role="search">
      <label class="visually-hidden" for="find-module">Module</label>
      <input id="find-module" ref={field} type="search" list="modules" placeholder="Module ( / )" onInput={(event) => type(event.currentTarget.value)} />
      <datalist id="modules">{names.map((one) => <option key={one} value={one} />)}</datalist>
      <label class="visually-hidden" for="find-kind">Kind</label>
      <select id="find-kind" value={kind} onChange={(event) => onChange({ kind: event.currentTarget.value })}>
        <option value="">All kinds</option>
        {KINDS.map((one) => <option key={one}>{one}</option>)}
      </select>
      <span class="row" role="group" aria-label="State">
        {STATUSES.map((one) => <button key={one} class="small" aria-pressed={chosen.has(one)} onClick={() => toggle(one)}>{one}</button>)}
      </span>
    </div>
  );
}
