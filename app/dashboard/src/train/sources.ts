/** Which array of a dataset becomes which input. */
import type { Module, Schemas } from "../api/client";
import { readShape, written } from "../upload/shapes";

export type Dataset = Schemas["DatasetView"];
type Arrays = Dataset["arrays"];

/** As entered in the form. */
export interface Source {
  input: string;
  array: string;
  /** The shape to which each example is reshaped; empty to leave it as it is. */
  shape: string;
  /** A number, or a fraction such as 1/255. */
  scale: string;
}

const LABELS = /label|target|class|^y(_|$)/i;

/** Propose an array for each input, by names, shapes and dtypes. */
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

/** The shape with which the input is bound, if the array's is different but has as many elements. */
function shapeFor(module: Module, input: string, array: Arrays[number] | undefined): string {
  const bound = [...(module.bind?.data_shapes ?? []), ...(module.bind?.label_shapes ?? [])].find((one) => one.name === input);
  const wanted = bound?.shape.slice(1).map((one) => one ?? 0);
  const has = array?.shape.slice(1);
  if (!wanted || !has || wanted.includes(0) || String(wanted) === String(has)) return "";
  if (String([...wanted].sort()) === String([...has].sort())) return ""; // the server transposes the axes itself
  const numbers = (sizes: number[]): number => sizes.reduce((product, one) => product * one, 1);
  return wanted.length > 0 && numbers(wanted) === numbers(has) ? written(wanted) : "";
}

/** The inputs of a request; empty fields are left out. */
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
