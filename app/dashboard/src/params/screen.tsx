/** Figures of a module's parameters: those in training or of a checkpoint, optionally beside another's. */
import { get, type Module } from "../api/client";
import { count, NONE, number, plural, shape } from "../format";
import { usePolling } from "../live/resource";
import { fixedIn } from "../modules/states";
import { Missing, Stale } from "../parts/stale";
import { link, place, replaceQuery } from "../router";
import { useSearchField } from "../shell/keyboard";
import { Bars, type Param, Spread } from "./histogram";
import "./params.css";

type Argument = NonNullable<Module["live"]>["arguments"][number];

const LIVE = "live";
const MOST_CHECKPOINTS = 100;
const MOST_ROWS = 500;

interface Column {
  key: string;
  title: string;
  /** What rows are sorted by. */
  value: (param: Param) => number | string | null;
  says: (param: Param) => string;
}

const figure = (key: "norm" | "min" | "max" | "mean" | "std", title: string): Column => ({ key, title, value: (param) => param[key], says: (param) => number(param[key]) });
const COLUMNS: Column[] = [
  { key: "name", title: "Name", value: (param) => param.name, says: (param) => param.name },
  { key: "shape", title: "Shape", value: (param) => param.shape.length, says: (param) => `${shape(param.shape)} ${param.dtype}` },
  { key: "count", title: "Count", value: (param) => param.count, says: (param) => count(param.count) },
  figure("norm", "Norm"),
  figure("min", "Min"),
  figure("max", "Max"),
  figure("mean", "Mean"),
  figure("std", "Std"),
  { key: "nan", title: "NaN, ∞", value: (param) => param.nan + param.infinite, says: (param) => (param.nan + param.infinite ? `${count(param.nan)}, ${count(param.infinite)}` : "0") },
];
const CHANGE: Column = { key: "change", title: "Change", value: (param) => param.change, says: (param) => (param.change === null ? NONE : `${(100 * param.change).toFixed(param.change < 0.1 ? 2 : 1)}%`) };
const TEXTS = ["name", "shape"];
const NO_NAMES: ReadonlySet<string> = new Set();

export function ParametersScreen({ name }: { name: string }) {
  document.title = `Parameters of ${name} · modserve`;
  const { query } = place.value;
  const [checkpoint, against] = [query.get("of") ?? LIVE, query.get("against") ?? ""];
  const path = { module: name };
  const isFixed = checkpoint !== LIVE;
  const resource = usePolling((signal) => get("/v1/modules/{module}/param_summary", { path, query: { checkpoint, against: against || undefined }, signal }), isFixed ? 600 : 30, [name, checkpoint, against]);
  const saved = usePolling(async (signal) => (await get("/v1/modules/{module}/checkpoints", { path, query: { limit: MOST_CHECKPOINTS }, signal })).items, 30, [name]).state.value.data ?? [];
  const module = usePolling((signal) => get("/v1/modules/{module}", { path, signal }), 30, [name]).state.value.data;
  const loaded = resource.state.value;
  const summary = loaded.data;
  const isCurrent = summary?.checkpoint === checkpoint && (summary.against ?? "") === against;
  const tags = saved.map((one) => one.tag);
  const choices = (now: string): string[] => (now && now !== LIVE && !tags.includes(now) ? [now, ...tags] : tags);
  return (
    <>
      <div class="title"><h1>Parameters of <a href={link(["modules", name])}>{name}</a></h1>{isCurrent && <Stale of={loaded} what="Figures" />}</div>
      <div class="row block controls">
        <label>Of <select value={checkpoint} onChange={(event) => replaceQuery({ of: event.currentTarget.value === LIVE ? "" : event.currentTarget.value })}><option value={LIVE}>those in training</option>{choices(checkpoint).map((one) => <option key={one} value={one}>checkpoint {one}</option>)}</select></label>
        <label>Compared with <select value={against} onChange={(event) => replaceQuery({ against: event.currentTarget.value, sort: event.currentTarget.value ? "change" : "" })}><option value="">nothing</option>{choices(against).map((one) => <option key={one} value={one}>checkpoint {one}</option>)}</select></label>
        <Search />
        {!isFixed && <button class="small push" onClick={() => void resource.refresh()}>Refresh</button>}
      </div>
      {summary && isCurrent ? <Figures items={summary.items} missing={summary.missing} fixed={module ? fixedIn(module) : NO_NAMES} against={summary.against} own={isFixed ? `checkpoint ${checkpoint}` : "in training"} /> : <Missing of={loaded} what="The figures" />}
      {module?.live && <Inputs of={module.live.arguments} />}
    </>
  );
}

function Search() {
  const field = useSearchField();
  return <input ref={field} type="search" placeholder="Find (/)" aria-label="Find a parameter" value={place.value.query.get("find") ?? ""} onInput={(event) => replaceQuery({ find: event.currentTarget.value })} />;
}

/** The inputs, which each batch brings. */
function Inputs({ of }: { of: Argument[] }) {
  const rows = of.filter((one) => one.role !== "parameter" && one.role !== "auxiliary");
  return (
    <section class="panel block" aria-labelledby="inputs">
      <header><h2 id="inputs">Inputs</h2></header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Inputs, table">
        <table>
          <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">Shape</th></tr></thead>
          <tbody>{rows.map((one) => <tr key={one.name}><td><code>{one.name}</code></td><td>{one.role}</td><td>{shape(one.shape)} {one.dtype}</td></tr>)}</tbody>
        </table>
      </div>
    </section>
  );
}

function Figures({ items, missing, fixed, against, own }: { items: Param[]; missing: string[]; fixed: ReadonlySet<string>; against: string | null; own: string }) {
  const { query } = place.value;
  const columns = against === null ? COLUMNS : [...COLUMNS.slice(0, 2), CHANGE, ...COLUMNS.slice(2)];
  const [sort = "", way = ""] = (query.get("sort") ?? "").split("-");
  const column = columns.find((one) => one.key === sort);
  const find = (query.get("find") ?? "").trim().toLowerCase();
  const found = items.filter((param) => param.name.toLowerCase().includes(find));
  const rows = column ? sorted(found, column, way === "up") : found;
  const named = items.find((param) => param.name === query.get("param"));
  const broken = items.filter((param) => param.nan + param.infinite > 0);
  const trained = items.filter((param) => param.role === "parameter" && !fixed.has(param.name));
  const all = trained.reduce((sum, param) => sum + param.count, 0);
  return (
    <>
      {broken.length > 0 && <p class="bad block" role="alert">{plural(broken.length, "array")} contain NaN or infinity: {broken.slice(0, 5).map((param) => param.name).join(", ")}{broken.length > 5 ? " and more" : ""}.</p>}
      {named && <Spread param={named} names={[own, against && `checkpoint ${against}`]} />}
      <section class="panel block" aria-labelledby="figures">
        <header>
          <h2 id="figures">Parameters</h2>
          <span class="quiet">{plural(items.length, "array")}, {plural(all, "trained number")}{missing.length > 0 ? `; ${plural(missing.length, "more array")} in checkpoint ${against}: ${missing.slice(0, 5).join(", ")}` : ""}</span>
        </header>
        {rows.length === 0 ? <p class="empty">{items.length === 0 ? "There are none." : "None matches."}</p> : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Parameters, table">
            <table class="params">
              <thead>
                <tr>
                  <th scope="col">Values</th>
                  {columns.map((one) => <Head key={one.key} column={one} sort={sort} isUp={way === "up"} />)}
                </tr>
              </thead>
              <tbody>{rows.slice(0, MOST_ROWS).map((param) => <Row key={param.name} param={param} columns={columns} isNamed={param === named} says={param.role === "auxiliary" ? "not trained" : fixed.has(param.name) ? "fixed" : ""} />)}</tbody>
            </table>
            {rows.length > MOST_ROWS && <p class="empty">and {count(rows.length - MOST_ROWS)} more; find them by their names</p>}
          </div>
        )}
      </section>
    </>
  );
}

function Head({ column, sort, isUp }: { column: Column; sort: string; isUp: boolean }) {
  const isSorted = sort === column.key;
  const ways = [column.key, `${column.key}-up`];
  if (TEXTS.includes(column.key)) ways.reverse();
  const next = isSorted ? (ways[ways.indexOf(isUp ? `${column.key}-up` : column.key) + 1] ?? "") : (ways[0] ?? "");
  return (
    <th scope="col" class={TEXTS.includes(column.key) ? "" : "number"} aria-sort={isSorted ? (isUp ? "ascending" : "descending") : "none"}>
      <button class="plain sort" onClick={() => replaceQuery({ sort: next })}>{column.title}{isSorted ? (isUp ? " ↑" : " ↓") : ""}</button>
    </th>
  );
}

function Row({ param, columns, isNamed, says }: { param: Param; columns: Column[]; isNamed: boolean; says: string }) {
  const open = (): void => {
    replaceQuery({ param: isNamed ? "" : param.name });
    if (!isNamed) scrollTo({ top: 0 });
  };
  return (
    <tr class={isNamed ? "named" : ""}>
      <td class="small-histogram"><Bars of={param.histogram} against={param.against?.histogram} label={`Histogram of ${param.name}`} /></td>
      {columns.map((column) =>
        column.key === "name" ? (
          <td key="name"><button class="plain sort" aria-expanded={isNamed} onClick={open}><code>{param.name}</code></button>{says && <span class="quiet"> {says}</span>}</td>
        ) : (
          <td key={column.key} class={`${TEXTS.includes(column.key) ? "" : "number"} ${column.key === "nan" && param.nan + param.infinite > 0 ? "bad" : ""}`}>{column.says(param)}</td>
        ),
      )}
    </tr>
  );
}

/** Sort by a column; unknown values come last. */
function sorted(params: Param[], { value }: Column, isUp: boolean): Param[] {
  return [...params].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const order = typeof a === "string" ? a.localeCompare(String(b), "en", { numeric: true }) : a - Number(b);
    return isUp ? order : -order;
  });
}
