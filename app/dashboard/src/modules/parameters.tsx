/** Inputs, parameters and states with their shapes. */
import { useSignal } from "@preact/signals";
import type { Module } from "../api/client";
import { count, NONE, shape } from "../format";

export function Parameters({ module }: { module: Module }) {
  const search = useSignal("");
  const rows = module.live?.arguments ?? [];
  const found = rows.filter((one) => one.name.toLowerCase().includes(search.value.toLowerCase()));
  const trained = rows.filter((one) => one.role === "parameter").reduce((sum, one) => sum + (elements(one.shape) ?? 0), 0);
  return (
    <section class="panel" aria-labelledby="parameters">
      <header>
        <h2 id="parameters">Parameters</h2>
        <span class="quiet">{trained ? `${count(trained)} numbers in all` : ""}</span>
        {rows.length > 10 && (
          <label class="push">
            <span class="visually-hidden">Find a parameter</span>
            <input type="search" placeholder="Find" onInput={(event) => (search.value = event.currentTarget.value.trim())} />
          </label>
        )}
      </header>
      {rows.length === 0 ? <p class="empty">{module.live ? "It has none." : "They are shown while the module is on its device; the first call brings it there."}</p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Parameters, table">
          <table>
            <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">Shape</th><th scope="col">Type</th><th scope="col" class="number">Numbers</th><th scope="col">Trained</th></tr></thead>
            <tbody>
              {found.map((one) => (
                <tr key={one.name}>
                  <td><code>{one.name}</code></td><td>{one.role}</td><td>{shape(one.shape)}</td><td>{one.dtype ?? NONE}</td>
                  <td class="number">{count(elements(one.shape))}</td>
                  <td>{one.role === "parameter" ? (one.fixed ? "no, fixed" : "yes") : NONE}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function elements(sizes: readonly number[] | null | undefined): number | null {
  return sizes ? sizes.reduce((product, one) => product * one, 1) : null;
}
