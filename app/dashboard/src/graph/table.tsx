/** The graph as a table. */
import { useSignal } from "@preact/signals";
import { plural, shape } from "../format";
import type { GraphData } from "./grouping";

const PAGE = 200;

export function NodeTable({ graph, onSelect }: { graph: GraphData; onSelect: (node: number) => void }) {
  const isOpen = useSignal(false);
  const most = useSignal(PAGE);
  return (
    <section class="panel chart block" aria-label="Nodes">
      <details onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
        <summary>Table of {plural(graph.nodes.length, "node")}</summary>
        {isOpen.value && (
          <div class="scroll" tabIndex={0} role="region" aria-label="Nodes, table">
            <table>
              <thead><tr><th scope="col">Node</th><th scope="col">Operator</th><th scope="col">Inputs</th><th scope="col">Output shape</th><th scope="col">Parameters</th></tr></thead>
              <tbody>
                {graph.nodes.slice(0, most.value).map((node, at) => (
                  <tr key={at}>
                    <td><button class="link" onClick={() => onSelect(at)}>{node.name}</button></td>
                    <td>{node.operator ?? <span class="quiet">{node.role}</span>}</td>
                    <td>{node.inputs.map((input) => graph.nodes[input.node]?.name).join(", ")}</td>
                    <td>{node.outputs.map((one) => shape(one.shape)).join(", ")}</td>
                    <td>{node.parameters.map((one) => `${one.input} ${shape(one.shape)}`).join(", ")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {graph.nodes.length > most.value && <p class="inside"><button class="small" onClick={() => (most.value += PAGE)}>More</button></p>}
          </div>
        )}
      </details>
    </section>
  );
}
