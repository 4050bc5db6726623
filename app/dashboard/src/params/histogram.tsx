/** The distribution of a parameter's values, alone or beside that of another checkpoint. */
import type { Schemas } from "../api/client";
import { count, number } from "../format";

export type Param = Schemas["ParamView"];
type Histogram = Schemas["HistogramView"];

const [WIDTH, HEIGHT] = [320, 100];

interface Props {
  of: Histogram | null;
  against?: Histogram | null | undefined;
  label: string;
}

/** Bars of the shares of all values, so that two histograms can be compared. */
export function Bars({ of, against, label }: Props) {
  const [own, other] = [sharesOf(of), sharesOf(against)];
  const most = [...own, ...other].reduce((high, one) => Math.max(high, one), 0) || 1;
  return (
    <svg class="histogram" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="bars" d={outline(own, most)} />
      {other.length > 0 && <path class="other" d={outline(other, most)} />}
    </svg>
  );
}

function sharesOf(histogram: Histogram | null | undefined): number[] {
  const counts = histogram?.counts ?? [];
  const sum = counts.reduce((all, one) => all + one, 0) || 1;
  return counts.map((one) => one / sum);
}

function outline(shares: number[], most: number): string {
  if (shares.length === 0) return "";
  const width = WIDTH / shares.length;
  const tops = shares.map((one, at) => `V${(HEIGHT * (1 - one / most)).toFixed(1)}H${((at + 1) * width).toFixed(1)}`);
  return `M0 ${HEIGHT}${tops.join("")}V${HEIGHT}Z`;
}

export function Spread({ param, names }: { param: Param; names: [string, string | null] }) {
  const { histogram, against } = param;
  const [own, before] = names;
  return (
    <figure class="panel chart block" aria-label={`Values of ${param.name}`}>
      <header><h2>{param.name}</h2><span class="quiet push">{histogram ? `${number(histogram.low)} to ${number(histogram.high)}` : "no finite values"}</span></header>
      <div class="plot"><Bars of={histogram} against={against?.histogram} label={`Histogram of ${param.name}; the table below has its values`} /></div>
      <div class="legend">
        <span><i class="key curve-1" />{own} <b>{count(param.count)}</b></span>
        {against && <span><i class="key curve-2" />{before} <b>{count(against.count)}</b></span>}
      </div>
      {histogram && (
        <details>
          <summary>Table</summary>
          <div class="scroll" tabIndex={0} role="region" aria-label={`Values of ${param.name}, table`}>
            <table>
              <thead><tr><th scope="col" class="number">From</th><th scope="col" class="number">To</th><th scope="col" class="number">{own}</th>{against && <th scope="col" class="number">{before}</th>}</tr></thead>
              <tbody>
                {histogram.counts.map((many, at) => (
                  <tr key={at}>
                    <td class="number">{number(edge(histogram, at))}</td><td class="number">{number(edge(histogram, at + 1))}</td><td class="number">{count(many)}</td>
                    {against && <td class="number">{count(against.histogram?.counts[at])}</td>}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
    </figure>
  );
}

function edge({ low, high, counts }: Histogram, at: number): number {
  return low + ((high - low) * at) / counts.length;
}
