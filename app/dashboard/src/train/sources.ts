/** Which array of a dataset becomes which input. */
import type { Module, Schemas } from "../api/client";
import { readShape, written } from "../upload/shapes";

export type Dataset = Schemas["DatasetView"];
type Arrays = Dataset["arrays"];

/** As entered in the form. */
export interface Source {
  input: string;
  array: string;
  /** Instead of an array: columns of one number for each example. */
  columns: string[] | null;
  /** The shape to which each example is reshaped; empty to leave it as it is. */
  shape: string;
  /** A number, or a fraction such as 1/255. */
  scale: string;
}

const LABELS = /label|target|class|^y(_|$)/i;

/** Columns of numbers of a table: of a dataset with one number for each example in every array. */
export function columnsOf({ arrays }: Dataset): string[] {
  const isTable = arrays.length > 1 && arrays.every((one) => one.shape.length === 1 && one.shape[0] === arrays[0]?.shape[0]);
  return isTable ? arrays.filter((one) => !isText(one)).map((one) => one.name) : [];
}

export function isText({ classes, dtype }: Arrays[number]): boolean {
  return classes.length > 0 || dtype === "str";
}

/** Propose an array for each input, by names, shapes and dtypes; or columns of a table. */
export function proposed(module: Module, dataset: Dataset | null, part: "train" | "test"): Source[] {
  const { arrays = [] } = dataset ?? {};
  const columns = dataset ? columnsOf(dataset) : [];
  const labels = module.label_names.map((input) => sourceOf(module, input, arrayFor(input, true, arrays, part), true));
  const [data = "", ...others] = module.data_names;
  const isNamed = arrays.some((one) => one.name === data);
  const rest = columns.filter((one) => !labels.some((label) => label.array === one));
  if (others.length === 0 && !isNamed && rest.length > 0) return [{ input: data, array: "", columns: rest, shape: "", scale: "" }, ...labels];
  return [...module.data_names.map((input) => sourceOf(module, input, arrayFor(input, false, arrays, part), false)), ...labels];
}

function sourceOf(module: Module, input: string, array: Arrays[number] | undefined, isLabel: boolean): Source {
  return { input, array: array?.name ?? "", columns: null, shape: shapeFor(module, input, array), scale: !isLabel && array?.dtype === "uint8" ? "1/255" : "" };
}

function arrayFor(input: string, isLabel: boolean, arrays: Arrays, part: string): Arrays[number] | undefined {
  const suit = arrays.filter((one) => LABELS.test(one.name) === isLabel);
  return arrays.find((one) => one.name === input)
    ?? suit.find((one) => one.name.toLowerCase().includes(part))
    ?? suit[0]
    ?? (isLabel
      ? (arrays.find((one) => one.classes.length > 0) ?? arrays.findLast((one) => one.shape.length === 1))
      : arrays.find((one) => one.shape.length !== 1));
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
export function inputsOf(sources: readonly Source[]): Record<string, Partial<Schemas["ArraySource"]>> {
  const said = sources.filter((one) => one.columns ?? one.array !== "");
  return Object.fromEntries(said.map((one) => {
    const shape = readShape(one.shape);
    const from = one.columns ? { columns: one.columns } : { array: one.array };
    return [one.input, { ...from, ...(shape ? { shape } : {}), ...(one.scale ? { scale: readFraction(one.scale) } : {}) }];
  }));
}

export function readFraction(text: string): number {
  const [above = "", below] = text.split("/");
  return below === undefined ? Number(above) : Number(above) / Number(below);
}
