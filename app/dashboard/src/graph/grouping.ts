/** Groups of nodes whose names have a prefix in common, and the graph with some groups closed. */
import type { Schemas } from "../api/client";

export type GraphNode = Schemas["NodeView"];
export type GraphData = Schemas["GraphView"];

export interface Group {
  /** The prefix of its nodes' names, such as `stage1_unit2_`. */
  prefix: string;
  parent: Group | null;
  members: number[];
}

/** One box: a node, or a closed group. */
export interface Item {
  key: string;
  node: number | null;
  group: Group | null;
  members: number[];
}

export interface Shown {
  items: Item[];
  arcs: [from: number, to: number][];
  /** The item in which a node is shown. */
  itemOf: number[];
}

const FEWEST = 3;
/** A group of more than this share of the nodes would not divide the graph. */
const MOST_SHARE = 0.9;
/** The groups of graphs with at most this many nodes are open at first. */
const FEW_NODES = 60;

/** Groups of operators, outer groups before inner ones. */
export function groupsOf(nodes: GraphNode[]): Group[] {
  const found = new Map<string, number[]>();
  nodes.forEach((node, at) => {
    if (node.operator === null) return;
    const ends = [...node.name.matchAll(/(?<=[^_./])[_./]+/g)].map((match) => match.index + match[0].length);
    for (const end of ends) {
      if (end >= node.name.length) continue;
      const prefix = node.name.slice(0, end);
      const members = found.get(prefix);
      if (members) members.push(at);
      else found.set(prefix, [at]);
    }
  });
  const most = MOST_SHARE * nodes.filter((node) => node.operator !== null).length;
  const groups: Group[] = [];
  const inner = new Map<string, Group>();
  for (const [prefix, members] of [...found].sort(([one], [other]) => one.length - other.length)) {
    if (members.length < FEWEST || members.length > most) continue;
    const parent = enclosing(prefix, inner);
    if (parent?.members.length === members.length || !holdTogether(nodes, members)) continue;
    const group = { prefix, parent, members };
    groups.push(group);
    inner.set(prefix, group);
  }
  takeIn(nodes, groups);
  return groups;
}

/**
 * Add nodes with generated names (`_plus3`) to groups, because otherwise few groups could be closed
 * without a cycle. A node joins the innermost group of its inputs that also reads it, or that
 * contains all of its inputs, or all inputs of at least three nodes of the same operator whose
 * outputs are read together.
 */
function takeIn(nodes: GraphNode[], groups: Group[]): void {
  const groupsAt: Group[][] = nodes.map(() => []);
  for (const group of groups) for (const at of group.members) groupsAt[at]?.unshift(group);
  const readers: number[][] = nodes.map(() => []);
  nodes.forEach((node, at) => node.inputs.forEach((input) => readers[input.node]?.push(at)));
  const sourcesOf = (at: number): number[] => [...new Set(nodes[at]?.inputs.map((input) => input.node))];
  const isBetween = (group: Group, at: number): boolean => readers[at]?.some((reader) => groupsAt[reader]?.includes(group)) ?? false;
  const holds = (group: Group, members: number[]): boolean => members.length > 0 && members.every((at) => groupsAt[at]?.includes(group));
  nodes.forEach((node, at) => {
    if (node.operator === null || groupsAt[at]?.length) return;
    const sources = sourcesOf(at);
    // Nodes come after their inputs, so that these already have their groups.
    const alike = sourcesOf(readers[at]?.[0] ?? at).filter((other) => nodes[other]?.operator === node.operator && sourcesOf(other).length);
    const before = sources.length > 1 ? sources : alike.length >= FEWEST ? alike.flatMap(sourcesOf) : [];
    const near = sources.flatMap((source) => groupsAt[source] ?? []).sort((one, other) => other.prefix.length - one.prefix.length);
    const found = near.find((group) => isBetween(group, at) || holds(group, before));
    for (let group = found ?? null; group; group = group.parent) {
      group.members.push(at);
      groupsAt[at]?.push(group);
    }
  });
}

/** Whether most of the nodes read others of them. Otherwise the prefix names a kind of node, not a part of the graph. */
function holdTogether(nodes: GraphNode[], members: number[]): boolean {
  const own = new Set(members);
  return members.filter((at) => nodes[at]?.inputs.some((input) => own.has(input.node))).length >= members.length / 2;
}

function enclosing(prefix: string, groups: Map<string, Group>): Group | null {
  for (let end = prefix.length - 1; end > 0; end -= 1) {
    const found = groups.get(prefix.slice(0, end));
    if (found) return found;
  }
  return null;
}

/** The groups that are open at first; none in a large graph. */
export function openAtFirst(nodes: GraphNode[], groups: Group[]): Set<string> {
  return new Set(nodes.length <= FEW_NODES ? groups.map((group) => group.prefix) : []);
}

/** The groups around a node, the outermost first. */
export function around(node: number, groups: Group[]): Group[] {
  return groups.filter((group) => group.members.includes(node));
}

/** The graph with only some groups open. A group whose closing would create a cycle is opened as well. */
export function shownOf(nodes: GraphNode[], groups: Group[], open: ReadonlySet<string>): Shown {
  const opened = new Set(open);
  for (;;) {
    const shown = closed(nodes, groups, opened);
    const tangled = inCycles(shown);
    if (tangled.length === 0) return shown;
    for (const group of tangled) opened.add(group.prefix);
  }
}

function closed(nodes: GraphNode[], groups: Group[], open: ReadonlySet<string>): Shown {
  const outermost = new Map<number, Group>();
  const isSeen = (group: Group): boolean => group.parent === null || (open.has(group.parent.prefix) && isSeen(group.parent));
  for (const group of groups) {
    if (open.has(group.prefix) || !isSeen(group)) continue;
    for (const at of group.members) outermost.set(at, group);
  }
  const items: Item[] = [];
  const places = new Map<Group, number>();
  const itemOf = nodes.map((node, at) => {
    const group = outermost.get(at) ?? null;
    if (!group) return items.push({ key: `node ${node.name}`, node: at, group: null, members: [at] }) - 1;
    const place = places.get(group);
    if (place !== undefined) return place;
    places.set(group, items.length);
    return items.push({ key: `group ${group.prefix}`, node: null, group, members: group.members }) - 1;
  });
  const arcs = new Map<string, [number, number]>();
  nodes.forEach((node, at) => {
    for (const input of node.inputs) {
      const [from, to] = [itemOf[input.node] ?? 0, itemOf[at] ?? 0];
      if (from !== to) arcs.set(`${from} ${to}`, [from, to]);
    }
  });
  return { items, arcs: [...arcs.values()], itemOf };
}

/** Groups on cycles, or between two cycles: those that remain after sources and sinks are removed repeatedly (Kahn's algorithm in both directions). */
function inCycles({ items, arcs }: Shown): Group[] {
  const left = new Set(items.keys());
  for (const end of [1, 0] as const) {
    const counts = new Map<number, number>();
    for (const arc of arcs) counts.set(arc[end], (counts.get(arc[end]) ?? 0) + 1);
    const ready = [...left].filter((at) => !counts.get(at));
    const next = new Map<number, number[]>();
    for (const arc of arcs) next.set(arc[1 - end] as number, [...(next.get(arc[1 - end] as number) ?? []), arc[end]]);
    for (let at = ready.pop(); at !== undefined; at = ready.pop()) {
      left.delete(at);
      for (const other of next.get(at) ?? []) {
        counts.set(other, (counts.get(other) ?? 1) - 1);
        if (counts.get(other) === 0) ready.push(other);
      }
    }
  }
  return [...left].flatMap((at) => items[at]?.group ?? []);
}
