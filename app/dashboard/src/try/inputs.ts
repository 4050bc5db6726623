/** The inputs of a module, and the ways to give them in a browser. */
import type { Module, Schemas } from "../api/client";

export type Way = "draw" | "image" | "text" | "tokens" | "json";

export interface Input {
  name: string;
  dtype: string;
  /** The shape of one example; null for a length that varies. */
  sizes: (number | null)[];
  transform: Module["transforms"][string] | null;
  /** Lengths of the buckets, ascending; none without buckets. */
  lengths: number[];
}

/** Examples with more numbers are not shown as JSON but sent as a file. */
export const MOST_SHOWN = 4096;

const MOST_DRAWN = 64;

/** Return the inputs to give, without those that the server computes itself. */
export function inputsOf(module: Module): Input[] {
  const shapes = module.bind?.data_shapes ?? [];
  const buckets = Object.values(module.bind?.buckets ?? {}).map((one) => one.data_shapes);
  return shapes.filter((one) => !one.lengths_of).map((one) => {
    const all = [shapes, ...buckets].map((each) => each.find((other) => other.name === one.name)?.shape ?? one.shape);
    const axes = one.shape.map((size, axis) => (all.every((shape) => shape[axis] === size) ? size || null : null));
    const varying = axes.findIndex((size, axis) => axis > 0 && size === null);
    const lengths = varying < 0 ? [] : all.map((shape) => shape[varying] ?? 0).filter(Boolean);
    return {
      name: one.name,
      dtype: one.dtype ?? "float32",
      sizes: axes.filter((_, axis) => axis !== Math.max(0, (one.layout ?? "N").indexOf("N"))),
      transform: module.transforms[one.name] ?? null,
      lengths: [...new Set(lengths)].sort((a, b) => a - b),
    };
  });
}

/** Ways to give an input, the most natural one first. */
export function waysOf({ sizes, transform, lengths }: Input): Way[] {
  if (transform?.type === "text") return ["text", "json"];
  const [channels, height, width] = sizes.length === 2 ? [1, ...sizes] : sizes;
  const isPicture = (sizes.length === 2 || sizes.length === 3) && (channels === 1 || channels === 3) && (height ?? 0) > 3 && (width ?? 0) > 3;
  const ways: Way[] = [];
  if (drawnSize(sizes)) ways.push("draw");
  if (transform?.type === "image" || (isPicture && sizes.length === 3)) ways.push("image");
  if (sizes.length === 1 && (lengths.length > 0 || sizes[0] === null)) ways.push("tokens", "text");
  return [...ways, "json"];
}

/** Height and width of a drawing that is one example; null if none can be. */
export function drawnSize(sizes: (number | null)[]): [number, number] | null {
  const side = sizes.length === 1 ? Math.sqrt(sizes[0] ?? 0) : 0;
  const [height, width] = sizes.length === 1 ? [side, side] : sizes.slice(-2);
  const isGray = sizes.length < 3 || (sizes.length === 3 && sizes[0] === 1);
  const fits = isGray && Number.isInteger(side) && height && width && height >= 8 && width >= 8 && height <= MOST_DRAWN && width <= MOST_DRAWN;
  return fits && sizes.length <= 3 ? [height, width] : null;
}

export function countOf(sizes: readonly (number | null)[], length: number): number {
  return sizes.reduce<number>((product, size) => product * (size ?? length), 1);
}

/** Numbers in nested lists of a shape. */
export function nested(values: readonly number[], sizes: readonly number[]): unknown {
  const [, ...rest] = sizes;
  if (rest.length === 0) return values;
  const step = rest.reduce((product, size) => product * size, 1);
  return Array.from({ length: sizes[0] ?? 0 }, (_, at) => nested(values.slice(at * step, (at + 1) * step), rest));
}

/** An example of the right shape, with numbers other than zeros. */
export function example({ sizes, lengths, dtype }: Input): unknown {
  const whole = sizes.map((size) => size ?? lengths[0] ?? 4);
  const isInteger = dtype.includes("int");
  const values = Array.from({ length: countOf(whole, 1) }, (_, at) => (isInteger ? at % 3 : Math.round(50 * (1 + Math.sin(at))) / 100));
  return nested(values, whole);
}

/** The smallest bucket that fits a length; null if none does. */
export function bucketFor(lengths: readonly number[], length: number): number | null {
  return lengths.find((one) => one >= length) ?? null;
}

/** The most tokens of a text that the input takes; null for any number. */
export function mostTokens({ lengths, sizes, transform }: Input): number | null {
  const limits = [lengths.at(-1) ?? sizes[0] ?? null, transform?.type === "text" ? transform.max_length : null].filter((one) => one != null);
  return limits.length > 0 ? Math.min(...limits) : null;
}

export type Answer = {
  outputs: Record<string, Schemas["AnsweredTensor"] | Schemas["Ranking"]>;
  version?: string;
  bucket?: string;
};
