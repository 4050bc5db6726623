/** What the first example of a dataset becomes, asked of the server while the form is filled in. */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { post, type Schemas } from "../api/client";
import { mayTrain } from "../api/session";
import { count, number, plural, shape } from "../format";
import { Faults } from "../parts/faults";
import { type Dataset, inputsOf, type Source } from "./sources";

export type Example = Schemas["InputPreviewView"];

export interface First {
  inputs: Record<string, Example>;
  faults: Faults;
}

const NONE: First = { inputs: {}, faults: new Faults() };
const PAUSE_MS = 250;
const MOST_NUMBERS = 8;

/**
 * Return the first example by input.
 *
 * @param numbered of validation: the inputs of the training, whose classes keep their numbers.
 */
export function useFirst(module: string, dataset: Dataset | null, sources: Source[], numbered: Record<string, Example> = {}): Signal<First> {
  const first = useSignal(NONE);
  const inputs = inputsOf(sources);
  const classes = Object.fromEntries(sources.flatMap(({ input, array }) => {
    const known = numbered[input]?.classes ?? [];
    return known.length > 0 && dataset?.arrays.find((one) => one.name === array)?.classes.length ? [[array, known]] : [];
  }));
  const body = { dataset: dataset?.name, inputs, classes };
  useEffect(() => {
    if (!dataset || !mayTrain.value) {
      first.value = NONE;
      return;
    }
    const asking = new AbortController();
    const timer = setTimeout(() => {
      post("/v1/modules/{module}/fit/preview", { path: { module }, body, signal: asking.signal }).then(
        (found) => (first.value = { inputs: found.inputs, faults: NONE.faults }),
        (error: Error) => !asking.signal.aborted && (first.value = { inputs: {}, faults: new Faults(error) }),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      asking.abort();
    };
  }, [module, JSON.stringify(body)]);
  return first;
}

export function FirstExample({ of }: { of: Example | undefined }) {
  if (!of) return null;
  if (of.text !== null) return <>{count(of.example as number)}, <b>{of.text}</b></>;
  const flat = (Array.isArray(of.example) ? of.example.flat(Infinity) : [of.example]) as unknown[];
  const numbers = flat.slice(0, MOST_NUMBERS).map((one, at) => `${of.names.length > 1 ? `${of.names[at] ?? ""} ` : ""}${typeof one === "number" ? number(one) : String(one)}`);
  const rest = flat.length - numbers.length;
  return <>{of.shape.length > 0 && <span class="quiet">{shape(of.shape)} </span>}{of.example === null ? "too many numbers to show" : numbers.join(", ")}{rest > 0 && <span class="quiet"> and {plural(rest, "more number")}</span>}</>;
}
