/** The details of the selected node or group. */
import { count, latency, NONE, shape } from "../format";
import { link } from "../router";
import type { GraphData, GraphNode, Item } from "./grouping";
import { type Profile, stepsByNode, sumOfSteps } from "./times";

interface Props {
  module: string;
  graph: GraphData;
  /** Names of parameters that training does not change. */
  fixed: ReadonlySet<string>;
  item: Item | null;
  profile: Profile | null;
  groups: string[];
  onSelect: (node: number) => void;
  onToggle: (prefix: string) => void;
}

const MOST_NAMES = 12;

export function Details(props: Props) {
  const { graph, item } = props;
  if (!item) return <p class="empty">Select a node to see its attributes, shapes and parameters.</p>;
  const node = item.node === null ? undefined : graph.nodes[item.node];
  return <div class="inside stack">{node && item.node !== null ? <Node {...props} node={node} at={item.node} /> : <GroupFacts {...props} item={item} />}</div>;
}

function Node({ module, graph, fixed, node, at, profile, groups, onSelect, onToggle }: Props & { node: GraphNode; at: number }) {
  const readers = graph.nodes.flatMap((one, place) => (one.inputs.some((input) => input.node === at) ? [place] : []));
  const attributes = Object.entries(node.attributes);
  return (
    <>
      <div>
        <h2>{node.operator ?? `Input: ${node.role}`}</h2>
        <p class="name"><code>{node.name}</code></p>
      </div>
      {groups.length > 0 && <p class="row">{groups.map((prefix) => <button key={prefix} class="small" onClick={() => onToggle(prefix)}>Close {prefix}</button>)}</p>}
      {profile && <Time node={node} profile={profile} />}
      <Rows title="Output shapes" rows={node.outputs.map((one) => [one.name, `${shape(one.shape)} ${one.dtype ?? ""}`])} />
      {node.inputs.length > 0 && (
        <Rows
          title="Input shapes"
          rows={node.inputs.map((input) => {
            const source = graph.nodes[input.node];
            const output = source?.outputs[input.output];
            return [<>{input.name}: <button class="link" onClick={() => onSelect(input.node)}>{source?.name}</button></>, shape(output?.shape)];
          })}
        />
      )}
      {node.parameters.length > 0 && (
        <Rows
          title="Parameters"
          rows={node.parameters.map((one) => [
            <>{one.input}: <a href={link(["modules", module, "parameters"], { param: one.name })}>{one.name}</a></>,
            `${shape(one.shape)} ${one.dtype ?? ""}${one.role === "auxiliary" ? ", not trained" : fixed.has(one.name) ? ", fixed" : ""}`,
          ])}
        />
      )}
      {attributes.length > 0 && <Rows title="Attributes" rows={attributes} />}
      {readers.length > 0 && (
        <div>
          <h3>Read by</h3>
          {readers.slice(0, MOST_NAMES).map((place) => <p key={place}><button class="link" onClick={() => onSelect(place)}>{graph.nodes[place]?.name}</button></p>)}
          {readers.length > MOST_NAMES && <p class="quiet">and {readers.length - MOST_NAMES} more</p>}
        </div>
      )}
    </>
  );
}

function Time({ node, profile }: { node: GraphNode; profile: Profile }) {
  const steps = stepsByNode(profile).get(node.name);
  if (!steps) return <p class="quiet">{node.operator === null ? "An input takes no time." : "It needed no computation of its own."}</p>;
  const others = [...new Set(steps.flatMap((step) => step.nodes))].filter((name) => name !== node.name);
  return (
    <div>
      <h3>Time</h3>
      <p>{latency(sumOfSteps(steps))} by {[...new Set(steps.map((step) => step.kernel))].join(", ")}</p>
      {others.length > 0 && (
        <p class="quiet">It was fused with {others.slice(0, MOST_NAMES).join(", ")}{others.length > MOST_NAMES ? ` and ${count(others.length - MOST_NAMES)} more` : ""}: this is their time together.</p>
      )}
    </div>
  );
}

function GroupFacts({ graph, item, profile, onToggle }: Props & { item: Item }) {
  const kinds = new Map<string, number>();
  for (const at of item.members) {
    const kind = graph.nodes[at]?.operator ?? "input";
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  const steps = profile ? stepsByNode(profile) : null;
  const sum = steps && sumOfSteps(item.members.flatMap((at) => steps.get(graph.nodes[at]?.name ?? "") ?? []));
  return (
    <>
      <div>
        <h2>Group {item.group?.prefix}</h2>
        <p class="quiet">{count(item.members.length)} operators: those whose names begin with this, and those between them</p>
      </div>
      <p><button class="small" onClick={() => item.group && onToggle(item.group.prefix)}>Open the group</button></p>
      {sum !== null && <div><h3>Time</h3><p>{latency(sum)}</p></div>}
      <Rows title="Operators" rows={[...kinds].sort((one, other) => other[1] - one[1]).map(([kind, many]) => [kind, count(many)])} />
    </>
  );
}

function Rows({ title, rows }: { title: string; rows: [preact.ComponentChildren, string][] }) {
  return (
    <div>
      <h3>{title}</h3>
      <dl class="pairs">{rows.map(([term, says], at) => <div key={at}><dt>{term}</dt><dd>{says || NONE}</dd></div>)}</dl>
    </div>
  );
}
