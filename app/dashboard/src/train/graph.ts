/** What a training can learn from a module's symbol. */

interface Node {
  op: string;
  name: string;
  inputs: [number, number, number?][];
}

/** The response of `GET …/symbol`. */
export interface Graph {
  nodes: Node[];
  heads: [number, number, number?][];
}

/** Metrics that suit the losses at the end of a graph. */
export function metricsOf(graph: Graph): string {
  const losses = new Set(graph.heads.map(([at]) => graph.nodes[at]?.op ?? ""));
  if (losses.has("SoftmaxOutput") || losses.has("Softmax")) return "accuracy, ce";
  if (losses.has("LinearRegressionOutput")) return "mse";
  if (losses.has("MAERegressionOutput")) return "mae";
  return "loss";
}

/** Whether the graph ends with a loss, without which nothing is learnt. */
export function hasLoss(graph: Graph): boolean {
  return graph.heads.some(([at]) => /Output$|^Softmax$|^make_loss$|^MakeLoss$|Loss$|^softmax_cross_entropy$/.test(graph.nodes[at]?.op ?? ""));
}

/** Internal outputs at which a graph can be cut, and that below the last fully connected layer. */
export function cutsOf(graph: Graph): { all: string[]; proposed: string } {
  const layers = graph.nodes.filter((one) => one.op !== "null");
  let proposed = "";
  for (const node of layers) {
    const below = graph.nodes[node.inputs[0]?.[0] ?? -1];
    if (node.op === "FullyConnected" && below && below.op !== "null") proposed = outputOf(below);
  }
  return { all: layers.map(outputOf), proposed };
}

/** Names of the variables that remain below a cut, including inputs. */
export function variablesBelow(graph: Graph, output: string): string[] {
  const top = graph.nodes.findIndex((one) => one.op !== "null" && outputOf(one) === output);
  const seen = new Set<number>();
  const left = [top];
  for (let at = left.pop(); at !== undefined; at = left.pop()) {
    if (at < 0 || seen.has(at)) continue;
    seen.add(at);
    left.push(...(graph.nodes[at]?.inputs ?? []).map(([from]) => from));
  }
  return [...seen].map((at) => graph.nodes[at]).filter((one) => one?.op === "null").map((one) => one?.name ?? "");
}

function outputOf(node: Node): string {
  return `${node.name}_output`;
}
