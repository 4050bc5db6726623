/** A module's graph: the shapes of a bucket, groups that open and close, and the time of each step. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get, post } from "../api/client";
import { mayTrain } from "../api/session";
import { fixedIn } from "../modules/states";
import { plural } from "../format";
import { useRefreshOn } from "../live/refresh";
import { usePolling } from "../live/resource";
import { Missing, Stale } from "../parts/stale";
import { link, place, replaceQuery } from "../router";
import { Details } from "./details";
import { around, type GraphData, groupsOf, openAtFirst, shownOf } from "./grouping";
import { NodeSearch } from "./search";
import { NodeTable } from "./table";
import { heatOf, type Profile, Times } from "./times";
import { GraphView } from "./view";
import "./graph.css";

export function GraphScreen({ name }: { name: string }) {
  document.title = `Graph of ${name} · modserve`;
  const bucket = place.value.query.get("bucket") ?? "";
  const path = { module: name };
  const load = async (signal: AbortSignal) => {
    const graph = get("/v1/modules/{module}/graph", { path, query: { bucket: bucket || undefined }, signal });
    const module = await get("/v1/modules/{module}", { path, signal });
    return { graph: await graph, buckets: Object.keys(module.live?.buckets ?? {}), fixed: fixedIn(module) };
  };
  const resource = usePolling(load, 60, [name, bucket]);
  useRefreshOn(resource, (event) => event.module === name && event.type.startsWith("module_"));
  const loaded = resource.state.value;
  const found = loaded.data;
  return (
    <>
      <div class="title"><h1>Graph of <a href={link(["modules", name])}>{name}</a></h1><Stale of={loaded} what="Graph" /></div>
      {found ? <Graph key={found.graph.bucket} name={name} {...found} /> : <Missing of={loaded} what="The graph" />}
    </>
  );
}

function Graph({ name, buckets, fixed, graph: newest }: { name: string; buckets: string[]; fixed: ReadonlySet<string>; graph: GraphData }) {
  // The same object as long as its content is the same: a new layout would move what the user looks at.
  const graph = useMemo(() => newest, [JSON.stringify(newest)]);
  const groups = useMemo(() => groupsOf(graph.nodes), [graph]);
  const open = useSignal(openAtFirst(graph.nodes, groups));
  const shown = useMemo(() => shownOf(graph.nodes, groups, open.value), [graph, open.value]);
  const hasParameters = useSignal(false);
  const profile = useSignal<Profile | null>(null);
  const isMeasuring = useSignal(false);
  const fault = useSignal("");
  const chosen = useSignal<string | null>(null);
  const wanted = place.value.query.get("node");
  const selected = useMemo(() => {
    const at = shown.items.findIndex((item) => item.key === chosen.value);
    return at < 0 ? null : at;
  }, [shown, chosen.value]);
  const heat = useMemo(() => (profile.value ? heatOf(graph, shown, profile.value) : null), [graph, shown, profile.value]);
  const showNode = (at: number): void => {
    const closed = around(at, groups).map((group) => group.prefix).filter((prefix) => !open.value.has(prefix));
    if (closed.length) open.value = new Set([...open.value, ...closed]);
    chosen.value = `node ${graph.nodes[at]?.name}`;
    replaceQuery({ node: graph.nodes[at]?.name ?? "" });
  };
  const showName = (named: string | null): void => {
    const at = graph.nodes.findIndex((node) => node.name === named);
    if (at >= 0) showNode(at);
  };
  useEffect(() => {
    if (chosen.value !== `node ${wanted}`) showName(wanted);
  }, [wanted]);
  const toggle = (prefix: string): void => {
    const next = new Set(open.value);
    const isClosing = next.delete(prefix);
    if (!isClosing) next.add(prefix);
    open.value = next;
    if (isClosing) chosen.value = `group ${prefix}`;
  };
  const toggleItem = (at: number): void => {
    const item = shown.items[at];
    if (item?.group) toggle(item.group.prefix);
  };
  const select = (at: number | null): void => {
    const item = at === null ? undefined : shown.items[at];
    chosen.value = item?.key ?? null;
    replaceQuery({ node: item?.node == null ? "" : (graph.nodes[item.node]?.name ?? "") });
  };
  const measure = async (): Promise<void> => {
    isMeasuring.value = true;
    fault.value = "";
    try {
      profile.value = await post("/v1/modules/{module}/profile", { path: { module: name }, body: { bucket: graph.bucket } });
    } catch (error) {
      fault.value = (error as Error).message;
    }
    isMeasuring.value = false;
  };
  const item = selected === null ? null : (shown.items[selected] ?? null);
  const operators = graph.nodes.filter((node) => node.operator !== null).length;
  return (
    <>
      <div class="row block controls">
        {buckets.length > 1 && (
          <label>Bucket <select value={graph.bucket} onChange={(event) => replaceQuery({ bucket: event.currentTarget.value })}>{buckets.map((one) => <option key={one}>{one}</option>)}</select></label>
        )}
        <NodeSearch nodes={graph.nodes} onFound={showNode} />
        <span class="quiet">{plural(operators, "operator")}{graph.is_bound ? "" : "; no shapes before the module is bound"}</span>
        <span class="push row">
          {groups.length > 0 && <button class="small" onClick={() => (open.value = new Set(groups.map((group) => group.prefix)))}>Open all groups</button>}
          {groups.length > 0 && <button class="small" onClick={() => (open.value = new Set())}>Close all</button>}
          <button class="small" aria-pressed={hasParameters.value} onClick={() => (hasParameters.value = !hasParameters.value)}>Parameters</button>
          <button class="small primary" disabled={!mayTrain.value || isMeasuring.value || !graph.is_bound} title={mayTrain.value ? "Runs some predictions between those of others" : "This needs a key of scope train"} onClick={() => void measure()}>
            {isMeasuring.value ? "Measuring …" : "Measure times"}
          </button>
        </span>
      </div>
      {fault.value && <p class="bad block" role="alert">{fault}</p>}
      <div class="graph-and-details block">
        <section class="panel" aria-label="Graph"><GraphView graph={graph} shown={shown} hasParameters={hasParameters.value} heat={heat} selected={selected} onSelect={select} onToggle={toggleItem} /></section>
        <section class="panel details" aria-label="Details" tabIndex={0}>
          <Details module={name} graph={graph} fixed={fixed} item={item} profile={profile.value} groups={item?.node == null ? [] : around(item.node, groups).map((group) => group.prefix)} onSelect={showNode} onToggle={toggle} />
        </section>
      </div>
      {profile.value && <Times profile={profile.value} onSelect={showName} />}
      <NodeTable graph={graph} onSelect={showNode} />
      <p class="quiet block">Drag to move, turn the wheel or spread two fingers to zoom{groups.length > 0 ? `, click twice to open one of ${plural(groups.length, "group")}` : ""}.</p>
    </>
  );
}
