/** All modules. */
import { useSignal } from "@preact/signals";
import { get } from "../api/client";
import { useRefreshOn } from "../live/refresh";
import { usePolling } from "../live/resource";
import { moment, NONE } from "../format";
import { Missing, Stale } from "../parts/stale";
import { State } from "../parts/state";
import { link } from "../router";
import { residenceOf, STAGES, stateOf, toneOf } from "./states";

const PAGE = 100;

export function ModulesScreen() {
  document.title = "Modules · modserve";
  const cursors = useSignal<string[]>([]);
  const cursor = cursors.value.at(-1);
  const resource = usePolling((signal) => get("/v1/modules", { query: { cursor, limit: PAGE }, signal }), 15, [cursor]);
  useRefreshOn(resource, (event) => event.type.startsWith("module_") || event.type.startsWith("executor_"));
  const loaded = resource.state.value;
  const modules = loaded.data?.items ?? [];
  const next = loaded.data?.next_cursor;
  return (
    <>
      <div class="title"><h1>Modules</h1><Stale of={loaded} what="Modules" /><a class="button push" href={link(["upload"])}>Upload a model</a></div>
      <section class="panel" aria-label="Modules">
        {!loaded.data ? <Missing of={loaded} what="Modules" /> : modules.length === 0 ? (
          <p class="empty">There are no modules yet. <a href={link(["upload"])}>Upload</a> the files of a model, or see how <a href="./docs#create_module"><code>POST v1/modules</code></a> creates one.</p>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Modules, table">
            <table>
              <thead>
                <tr>
                  <th scope="col">Module</th><th scope="col">State</th><th scope="col">Stage</th><th scope="col">Where</th>
                  <th scope="col" class="number">Newest checkpoint</th><th scope="col" class="number">Buckets</th><th scope="col">Updated</th>
                </tr>
              </thead>
              <tbody>
                {modules.map((one) => (
                  <tr key={one.name}>
                    <td class="name" title={one.name}><a href={link(["modules", one.name])}>{one.name}</a></td>
                    <td><State tone={toneOf(one)}>{stateOf(one)}</State></td>
                    <td class="quiet">{STAGES[one.stage] ?? one.stage}</td>
                    <td>{residenceOf(one)}</td>
                    <td class="number">{one.checkpoint ?? NONE}</td>
                    <td class="number">{one.bucket_keys.length || NONE}</td>
                    <td>{moment(one.updated_at)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      {(cursor ?? next) && (
        <div class="row pages">
          <button disabled={!cursor} onClick={() => (cursors.value = cursors.value.slice(0, -1))}>Previous</button>
          <button disabled={!next} onClick={() => next && (cursors.value = [...cursors.value, next])}>Next</button>
        </div>
      )}
    </>
  );
}
