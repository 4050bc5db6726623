/** Which array of a dataset becomes which input. */
import type { Module, Schemas } from "../api/client";
import { readShape, written } from "../upload/shapes";

export type Dataset = Schemas["DatasetView"];
type Arrays = Dataset["arrays"];

/** As it is written in the form. */
export interface Source {
  input: string;
  array: string;
  /** Of one example, where it is to be read as another one; empty for as it is. */
  shape: string;
  /** A number, or a fraction such as 1/255. */
  scale: string;
}

const LABELS = /label|target|class|^y(_|$)/i;

/** Return what suits best, by names, shapes and types. */
export function proposed(module: Module, dataset: Dataset | null, part: "train" | "test"): Source[] {
  const { arrays = [] } = dataset ?? {};
  const of = (names: readonly string[], isLabel: boolean): Source[] => names.map((input) => {
    const array = arrayFor(input, isLabel, arrays, part);
    return { input, array: array?.name ?? "", shape: shapeFor(module, input, array), scale: !isLabel && array?.dtype === "uint8" ? "1/255" : "" };
  });
  return [...of(module.data_names, false), ...of(module.label_names, true)];
}

function arrayFor(input: string, isLabel: boolean, arrays: Arrays, part: string): Arrays[number] | undefined {
  const suit = arrays.filter((one) => LABELS.test(one.name) === isLabel);
  return arrays.find((one) => one.name === input)
    ?? suit.find((one) => one.name.toLowerCase().includes(part))
    ?? suit[0]
    ?? arrays.find((one) => (one.shape.length === 1) === isLabel);
}

/** The shape that the input is bound with, where the array's has as many numbers and is another one. */
function shapeFor(module: Module, input: string, array: Arrays[number] | undefined): string {
  const bound = [...(module.bind?.data_shapes ?? []), ...(module.bind?.label_shapes ?? [])].find((one) => one.name === input);
  const wanted = bound?.shape.slice(1).map((one) => one ?? 0);
  const has = array?.shape.slice(1);
  if (!wanted || !has || wanted.includes(0) || String(wanted) === String(has)) return "";
  if (String([...wanted].sort()) === String([...has].sort())) return ""; // the server lets its axes change places
  const numbers = (sizes: number[]): number => sizes.reduce((product, one) => product * one, 1);
  return wanted.length > 0 && numbers(wanted) === numbers(has) ? written(wanted) : "";
}

/** As the server takes them; what is not said is left out. */
export function inputsOf(sources: readonly Source[]): Record<string, Schemas["ArraySource"]> {
  const said = sources.filter((one) => one.array !== "");
  return Object.fromEntries(said.map((one) => {
    const shape = readShape(one.shape);
    return [one.input, { array: one.array, ...(shape ? { shape } : {}), ...(one.scale ? { scale: readFraction(one.scale) } : {}) } as Schemas["ArraySource"]];
  }));
}

export function readFraction(text: string): number {
  const [above = "", below] = text.split("/");
  return below === undefined ? Number(above) : Number(above) / Number(below);
}
