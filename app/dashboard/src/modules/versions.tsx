/** Which versions of a module answer predictions: promotion, rollback and canaries. */
import { useSignal } from "@preact/signals";
import { get, post, put, remove, type Schemas, type Versions } from "../api/client";
import { mayAdminister } from "../api/session";
import { bytes, moment, number, percent } from "../format";
import { useRefreshOn } from "../live/refresh";
import { usePolling } from "../live/resource";
import { Confirm } from "../parts/confirm";
import { Missing, Stale } from "../parts/stale";
import { State } from "../parts/state";

type Version = Schemas["VersionView"];
interface Wish {
  title: string;
  text: string;
  label: string;
  run: () => Promise<unknown>;
}

const SHARES = [0.01, 0.05, 0.1, 0.25, 0.5];
const MOST = 100;

export function VersionsPanel({ name }: { name: string }) {
  const path = { module: name };
  const resource = usePolling((signal) => get("/v1/modules/{module}/versions", { path, query: { limit: MOST }, signal }), 10, [name]);
  useRefreshOn(resource, (event) => event.module === name && event.type !== "progress");
  const wish = useSignal<Wish | null>(null);
  const fault = useSignal("");
  const loaded = resource.state.value;
  const answer = async (isSure: boolean): Promise<void> => {
    const wanted = wish.value;
    wish.value = null;
    if (!isSure || !wanted) return;
    fault.value = "";
    try {
      await wanted.run();
    } catch (error) {
      fault.value = (error as Error).message;
    }
    await resource.refresh();
  };
  const ask = (wanted: Wish): void => {
    wish.value = wanted;
  };
  const versions = loaded.data;
  return (
    <section class="panel block" aria-labelledby="versions">
      <header>
        <h2 id="versions">Versions</h2>
        <span class="quiet">{versions && saysWho(versions)}{versions?.next_cursor && `; the newest ${MOST} are shown`}</span>
        <Stale of={loaded} what="Versions" />
        {versions && <span class="push row"><Whole name={name} versions={versions} ask={ask} /></span>}
      </header>
      {fault.value && <p class="inside bad" role="alert">{fault}</p>}
      {!versions ? <Missing of={loaded} what="Versions" /> : versions.items.length === 0 ? (
        <p class="empty">There are none yet: each checkpoint at the end of an epoch becomes one.</p>
      ) : (
        <Table name={name} versions={versions} ask={ask} />
      )}
      {wish.value && <Confirm {...wish.value} onAnswer={(isSure) => void answer(isSure)} />}
    </section>
  );
}

function saysWho({ promoted, canary }: Versions): string {
  const main = promoted === "live" ? "The parameters in training answer" : `Version ${promoted} answers`;
  return canary ? `${main}, version ${canary.version} answers ${percent(canary.weight)} of the predictions` : main;
}

interface Part {
  name: string;
  versions: Versions;
  ask: (wish: Wish) => void;
}

/** Actions that concern no single version. */
function Whole({ name, versions, ask }: Part) {
  const path = { module: name };
  const before = versions.earlier.at(-1);
  const rollBack: Wish = {
    title: `Roll ${name} back?`,
    text: `${before === "live" ? "The parameters in training answer" : `Version ${before} answers`} predictions that name no version again.`,
    label: "Roll back",
    run: () => post("/v1/modules/{module}/rollback", { path }),
  };
  const end: Wish = {
    title: "End the canary?",
    text: "The promoted version answers all predictions that name no version again.",
    label: "End the canary",
    run: () => remove("/v1/modules/{module}/canary", { path }),
  };
  const live: Wish = {
    title: `Promote the parameters of ${name} in training?`,
    text: "They answer predictions that name no version, as training changes them.",
    label: "Promote live",
    run: () => post("/v1/modules/{module}/versions/{version}/promote", { path: { module: name, version: "live" } }),
  };
  return (
    <>
      {versions.canary && <Button wish={end} ask={ask} />}
      {versions.promoted !== "live" && <Button wish={live} ask={ask} />}
      {before !== undefined && <Button wish={rollBack} ask={ask} />}
    </>
  );
}

function Table({ name, versions, ask }: Part) {
  return (
    <div class="scroll short" tabIndex={0} role="region" aria-label="Versions, table">
      <table>
        <thead>
          <tr>
            <th scope="col" class="number">Version</th><th scope="col">Role</th><th scope="col">Labels</th><th scope="col">Metrics</th>
            <th scope="col" class="number">Size</th><th scope="col">Created</th><th scope="col"><span class="visually-hidden">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          {versions.items.map((one) => (
            <tr key={one.version}>
              <td class="number">{one.version}</td>
              <td><Role of={one} isDamaged={versions.damaged.includes(one.version)} weight={versions.canary?.weight ?? 0} /></td>
              <td>{one.labels.join(", ")}</td>
              <td class="quiet wraps">{metricsOf(one)}</td>
              <td class="number">{bytes(one.size)}</td>
              <td>{moment(one.created_at)}</td>
              <td><span class="row end"><Choices name={name} version={one} ask={ask} /></span></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Role({ of, isDamaged, weight }: { of: Version; isDamaged: boolean; weight: number }) {
  if (isDamaged) return <State tone="bad">damaged</State>;
  if (of.promoted) return <State tone="good">answers</State>;
  if (of.canary) return <State tone="active">{`canary, ${percent(weight)}`}</State>;
  return <span class="quiet">–</span>;
}

function metricsOf({ metrics }: Version): string {
  const found = Object.entries(metrics).flatMap(([part, values]) =>
    typeof values === "object" && values !== null
      ? Object.entries(values as Record<string, number | null>).map(([name, value]) => `${part === "train" ? "" : `${part} `}${name} ${number(value)}`)
      : [`${part} ${number(values as number)}`],
  );
  return found.slice(0, 4).join(", ");
}

function Choices({ name, version, ask }: { name: string; version: Version; ask: (wish: Wish) => void }) {
  const promote: Wish = {
    title: `Promote version ${version.version} of ${name}?`,
    text: "It answers predictions that name no version, from now on.",
    label: "Promote",
    run: () => post("/v1/modules/{module}/versions/{version}/promote", { path: { module: name, version: version.version } }),
  };
  const share = (weight: number): Wish => ({
    title: `Version ${version.version} as a canary?`,
    text: `It answers ${percent(weight)} of the predictions that name no version, until the canary is ended.`,
    label: "Start the canary",
    run: () => put("/v1/modules/{module}/canary", { path: { module: name }, body: { version: version.version, weight } }),
  });
  if (version.promoted) return null;
  return (
    <>
      <Button wish={promote} ask={ask} says={`Promote version ${version.version}`} />
      <select
        class="small"
        aria-label={`Version ${version.version} as a canary`}
        value=""
        disabled={!mayAdminister.value}
        onChange={(event) => {
          ask(share(Number(event.currentTarget.value)));
          event.currentTarget.value = "";
        }}
      >
        <option value="">Canary …</option>
        {SHARES.map((one) => <option key={one} value={one}>{percent(one)}</option>)}
      </select>
    </>
  );
}

function Button({ wish, ask, says }: { wish: Wish; ask: (wish: Wish) => void; says?: string }) {
  return (
    <button class="small" disabled={!mayAdminister.value} title={mayAdminister.value ? "" : "This needs a key of scope admin"} aria-label={says ?? wish.label} onClick={() => ask(wish)}>
      {wish.label}
    </button>
  );
}
