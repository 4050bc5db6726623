/** An answer as best classes, boxes or numbers. */
import { useSignal } from "@preact/signals";
import type { Schemas } from "../api/client";
import { latency, number, shape } from "../format";
import type { Given } from "./given";
import { type Box, Boxed } from "./boxed";
import type { Answered } from "./call";
import type { Input } from "./inputs";

type Tensor = Schemas["AnsweredTensor"];
interface Ranked {
  label: string | null;
  index: number;
  score: number | null;
}

const MOST_ROWS = 16;
const MOST_COLUMNS = 16;
const LEAST_SCORE = 0.5;
const OF_A_BOX = 6;

interface Props {
  of: Answered;
  inputs: Input[];
  given: ReadonlyMap<string, Given>;
}

export function AnswerView({ of, inputs, given }: Props) {
  const { answer, seconds, serverSeconds } = of;
  const picture = inputs.find((one) => given.get(one.name)?.kind === "file");
  const shown = picture && given.get(picture.name);
  const image = shown?.kind === "file" && shown.file.type.startsWith("image/") ? { file: shown.file, input: picture as Input } : null;
  return (
    <section class="panel block" aria-labelledby="answer">
      <header>
        <h2 id="answer">Answer</h2>
        <span class="quiet">of version {answer.version ?? "live"}{answer.bucket ? `, bucket ${answer.bucket}` : ""}</span>
        <span class="push quiet" title="Time from the click to the answer, and the part of it spent in the server, including the model">{latency(seconds)}{serverSeconds === null ? "" : `, ${latency(serverSeconds)} in the server`}</span>
      </header>
      <div class="inside stack">
        {Object.entries(answer.outputs).map(([name, output]) => (
          <div key={name} class="stack tight">
            <h3>{name}{Array.isArray(output) ? "" : ` ${shape((output as Tensor).shape)}`}</h3>
            {Array.isArray(output) ? <Rankings of={output} /> : isBoxes(output as Tensor) ? <Boxes of={output as Tensor} image={image} /> : <Numbers of={output as Tensor} isOfImage={image !== null} />}
          </div>
        ))}
      </div>
    </section>
  );
}

/** Rankings are nested like the output's axes. */
function Rankings({ of }: { of: unknown }) {
  const rows = of as Ranked[] | unknown[][];
  if (!rows.length || Array.isArray(rows[0])) return <>{rows.slice(0, MOST_ROWS).map((one, at) => <Rankings key={at} of={one} />)}</>;
  const ranked = rows as Ranked[];
  const most = Math.max(1, ...ranked.map((one) => one.score ?? 0));
  return (
    <table class="ranking">
      <thead class="visually-hidden"><tr><th scope="col">Class</th><th scope="col">As a bar</th><th scope="col">Score</th></tr></thead>
      <tbody>
        {ranked.map((one) => (
          <tr key={one.index}>
            <td>{one.label ?? `class ${one.index}`}</td>
            <td class="bar-cell"><span class="fill-1" style={{ width: `${Math.max(0, (100 * (one.score ?? 0)) / most)}%` }} /></td>
            <td class="number">{one.score === null ? "–" : one.score.toFixed(4)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Whether it looks like MultiBoxDetection's output: rows of class, score and four edges. */
function isBoxes({ shape: sizes, data }: Tensor): boolean {
  if (sizes?.length !== 3 || sizes[2] !== OF_A_BOX) return false;
  const rows = (data as number[][][])[0] ?? [];
  return rows.every(([kind = 0.5, score = -1]) => Number.isInteger(kind) && kind >= -1 && (kind < 0 || (score >= 0 && score <= 1)));
}

function Boxes({ of, image }: { of: Tensor; image: { file: File; input: Input } | null }) {
  const least = useSignal(LEAST_SCORE);
  const rows = (of.data as number[][][])[0] ?? [];
  const found = rows.filter(([kind = -1, score = 0]) => kind >= 0 && score >= least.value).sort(([, a = 0], [, b = 0]) => b - a);
  const [height = 1, width = 1] = (image?.input.sizes ?? []).slice(-2).map((one) => one ?? 1);
  const isInPixels = found.some((row) => row.slice(2).some((edge) => Math.abs(edge) > 2));
  const boxes: Box[] = found.map(([kind = 0, score = 0, x0 = 0, y0 = 0, x1 = 0, y1 = 0]) => ({
    label: String(kind),
    score,
    edges: isInPixels ? [x0 / width, y0 / height, x1 / width, y1 / height] : [x0, y0, x1, y1],
  }));
  return (
    <>
      <label>Score of at least <input type="range" min={0} max={1} step={0.05} value={least} onInput={(event) => (least.value = Number(event.currentTarget.value))} /><output>{least.value.toFixed(2)}</output></label>
      {image && <Boxed {...image} boxes={boxes} />}
      {found.length === 0 ? <p class="quiet">None of {rows.length} boxes has such a score.</p> : (
        <div class="scroll short" tabIndex={0} role="region" aria-label="Boxes">
          <table>
            <thead><tr>{["class", "score", "left", "top", "right", "bottom"].map((one) => <th key={one} scope="col" class="number">{one}</th>)}</tr></thead>
            <tbody>{found.map((row, at) => <tr key={at}>{row.map((one, column) => <td key={column} class="number">{column ? number(one) : one}</td>)}</tr>)}</tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Numbers({ of, isOfImage }: { of: Tensor; isOfImage: boolean }) {
  const axes = of.shape?.length ?? 0;
  const whole = (Array.isArray(of.data) ? of.data : [of.data]) as unknown[];
  const rows = whole.map((one) => (Array.isArray(one) ? (one.flat(Infinity) as (number | null)[]) : [one as number | null]));
  const most = Math.max(0, ...rows.map((one) => one.length));
  return (
    <>
      {isOfImage && axes > 2 && <p class="quiet">This is neither a list of classes nor one of boxes as of MultiBoxDetection, so its numbers are shown as they are.</p>}
      <div class="scroll" tabIndex={0} role="region" aria-label="Numbers">
        <table>
          <thead><tr><th scope="col" class="number">Row</th>{Array.from({ length: Math.min(most, MOST_COLUMNS) }, (_, at) => <th key={at} scope="col" class="number">{at}</th>)}</tr></thead>
          <tbody>
            {rows.slice(0, MOST_ROWS).map((row, at) => (
              <tr key={at}><td class="number quiet">{at}</td>{row.slice(0, MOST_COLUMNS).map((one, column) => <td key={column} class="number">{number(one)}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
      {(rows.length > MOST_ROWS || most > MOST_COLUMNS) && <p class="quiet hint">Only the first of {rows.length} rows of {most} numbers are shown.</p>}
    </>
  );
}
