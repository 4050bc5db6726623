/** Requests by route, and predictions by module. */
import { count, latency, number, rate } from "../format";
import type { Loaded } from "../live/resource";
import { Missing, Stale } from "../parts/stale";
import { link } from "../router";
import type { History } from "./history";

export function Routes({ history }: { history: Loaded<History> }) {
  const rows = history.data?.routes ?? [];
  return (
    <section class="panel" aria-labelledby="routes">
      <header><h2 id="routes">Requests by route</h2><span class="push"><Stale of={history} what="Figures" /></span></header>
      {!history.data ? <Missing of={history} what="Metrics" /> : (
        <div class="scroll" tabIndex={0} role="region" aria-labelledby="routes">
          <table>
            <thead>
              <tr>
                <th scope="col">Route</th><th scope="col" class="number">per second</th>
                <th scope="col" class="number">p50</th><th scope="col" class="number">p95</th><th scope="col" class="number">p99</th>
                <th scope="col" class="number" title="Answers of 4xx since the server began">refused</th>
                <th scope="col" class="number" title="Answers of 5xx since the server began">failed</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((one) => (
                <tr key={`${one.verb} ${one.route}`}>
                  <td><code>{one.verb} {one.route}</code></td>
                  <td class="number">{rate(one.rate)}</td>
                  <td class="number">{latency(one.p50)}</td><td class="number">{latency(one.p95)}</td><td class="number">{latency(one.p99)}</td>
                  <td class="number">{count(one.refused)}</td>
                  <td class={`number ${one.failed ? "bad" : ""}`}>{count(one.failed)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

export function Modules({ history }: { history: Loaded<History> }) {
  const rows = history.data?.modules ?? [];
  return (
    <section class="panel" aria-labelledby="modules">
      <header><h2 id="modules">Predictions by module</h2></header>
      {!history.data ? <Missing of={history} what="Metrics" /> : rows.length === 0 ? <p class="empty">No predictions since the server began. <a href={link(["upload"])}>Upload a model</a> or read the <a href={link(["guides"])}>guides</a>.</p> : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Module</th><th scope="col" class="number">per second</th><th scope="col" class="number">batch size</th>
                <th scope="col" class="number">waiting, p95</th><th scope="col" class="number" title="Since the server began">failures</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((one) => (
                <tr key={one.module}>
                  <td class="name" title={one.module}>{one.module}</td><td class="number">{rate(one.rate)}</td><td class="number">{number(one.batch)}</td>
                  <td class="number">{latency(one.queued)}</td><td class={`number ${one.failures ? "bad" : ""}`}>{count(one.failures)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
