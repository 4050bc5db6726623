/**
 * Leaves out of uPlot, when the dashboard is built, what no chart here has: a legend of uPlot's own,
 * scatter plots, bands, filled areas, upright x axes, names of axes, focus, dates as words.
 *
 * uPlot asks for each of these where it would do it. Here the questions are answered beforehand, and
 * the minifier removes what nothing leads to any more. A question that a newer uPlot does not ask
 * ends the build.
 */
import type { Plugin } from "vite";

const ANSWERS: [question: RegExp, answer: string][] = [
  // A legend, and the series that one points at.
  [/(?<=const (showLegend|cursorFocus) = ).*/g, "false;"],
  [/legend\.show && legend\.live/g, "false"],
  [/multiValLegend = getMultiVals != null;/g, ""],
  [/self\.(addSeries|delSeries|setSeries|setLegend|valToIdx|posToIdx|batch) = .*/g, ""],
  [/events\["setSeries"\] = [^}]*\};/g, ""],
  // Scatter plots; x axes that stand upright or run backwards; scales drawn from others, or neither linear nor logarithmic.
  [/\bmode == 1\b/g, "true"],
  [/\bmode == 2\b/g, "false"],
  [/\bs(caleX|x|)(\.|)ori == 0/g, "true"],
  [/\bs(caleX\.|)ori == 1/g, "false"],
  [/\b(sc|scale)\.dir == -1/g, "false"],
  [/\b(\w+\.)?(xScaleD|d)istr == (2|4|100)\b/g, "false"],
  [/\b(sc|wsc|scaleOpts)\.from != null/g, "false"],
  [/\b(sc|wsc)\.from == null/g, "true"],
  // Bands between curves, and areas below them.
  [/let \[ bandFillDir, bandClipDir \] = .*/g, "const bandFillDir = 0, bandClipDir = 0;"],
  [/series\.fill != null \|\|/g, ""],
  [/flags != 0 && bands\.forEach/g, "false && bands.forEach"],
  [/if \(bandClip\)/g, "if (false)"],
  [/ \|\| bandClip\)/g, ")"],
  [/self\.\w+Band = .*/g, ""],
  // Names of axes; dates in words: a chart over time says how it writes them.
  [/axis\.label != null/g, "false"],
  [/const (months|days|_timeAxisStamps|_timeSeriesStamp) = [^;]*;/g, "const $1 = null;"],
  [/const (days3|months3) = .*/g, ""],
  [/const engNames = [^;]*;/g, ""],
  [/const \[ timeIncrsMs, .*/g, ""],
  [/\bms == 1\b/g, "false"],
  [/const (_fmtDate|_timeAxisVals|_timeSeriesVal) .*/g, "const $1 = null;"],
  [/s\.value = isTime .*/g, "s.value = sv || numSeriesVal;"],
  [/isArr\(av\) \?\s+timeAxisVals\([^:]*:/g, ""],
  [/isStr\(av\) \?\s+timeAxisVal\([^:]*:/g, ""],
  // What pages may call, and ours do not; other kinds of lines than straight ones.
  [/\buPlot\.(assign|fmtNum|range\w+|orient|fmtDate|tzDate|sync|addGap|clipGaps) *= .*/g, ""],
  [/let paths = uPlot\.paths = [^;]*;/g, ""],
  [/\(paths\.\w+ += .*;/g, ""],
];

export function smallerPlot(): Plugin {
  return {
    name: "smaller-plot",
    transform: {
      filter: { id: /uPlot\.esm/ },
      handler: (code) =>
        ANSWERS.reduce((text, [question, answer]) => {
          const answered = text.replace(question, answer);
          if (answered === text) throw new Error(`uPlot does not ask ${question}`);
          return answered;
        }, code),
    },
  };
}
