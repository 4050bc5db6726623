/** Finding a node by a part of its name or its operator. */
import { useSignal } from "@preact/signals";
import { useSearchField } from "../shell/keyboard";
import type { GraphNode } from "./grouping";

const MOST_FOUND = 12;

export function NodeSearch({ nodes, onFound }: { nodes: GraphNode[]; onFound: (node: number) => void }) {
  const text = useSignal("");
  const field = useSearchField();
  const wanted = text.value.trim().toLowerCase();
  const found = wanted ? nodes.flatMap((node, at) => (`${node.name} ${node.operator ?? ""}`.toLowerCase().includes(wanted) ? [at] : [])) : [];
  const choose = (at: number | undefined): void => {
    if (at === undefined) return;
    text.value = "";
    onFound(at);
  };
  return (
    <form
      class="find"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        choose(found[0]);
      }}
    >
      <input ref={field} type="search" placeholder="Find a node (/)" aria-label="Find a node" value={text} onInput={(event) => (text.value = event.currentTarget.value)} onKeyDown={(event) => event.key === "Escape" && (text.value = "")} />
      {wanted && (
        <ul class="found">
          {found.slice(0, MOST_FOUND).map((at) => (
            <li key={at}><button type="button" class="plain" onClick={() => choose(at)}>{nodes[at]?.name} <span class="quiet">{nodes[at]?.operator ?? nodes[at]?.role}</span></button></li>
          ))}
          <li class="quiet" role="status">{found.length === 0 ? "No node matches." : found.length > MOST_FOUND ? `and ${found.length - MOST_FOUND} more` : ""}</li>
        </ul>
      )}
    </form>
  );
}
