/** The API reference, rendered from the server's own OpenAPI document. */
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Refused, send } from "../api/client";
import { Brand } from "../shell/brand";
import { nextTheme, theme } from "../shell/theme";
import { type ApiDocument, entriesOf, isFound } from "./document";
import { OperationView, Text } from "./operation";

const loaded = signal<ApiDocument | null>(null);
const fault = signal<Refused | null>(null);
const search = signal("");

async function load(): Promise<void> {
  try {
    loaded.value = (await (await send("GET", "/openapi.json")).json()) as ApiDocument;
  } catch (error) {
    fault.value = error as Refused;
  }
}

export function DocsPage() {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    void load();
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || (event.target as HTMLElement).tagName === "INPUT") return;
      event.preventDefault();
      field.current?.focus();
    });
  }, []);
  const named = location.hash.slice(1);
  useEffect(() => {
    if (loaded.value && named) document.getElementById(named)?.scrollIntoView();
  }, [loaded.value]);
  return (
    <>
      <header class="bar">
        <a class="brand" href="./" aria-label="modserve"><Brand /></a>
        <nav aria-label="Screens"><a href="./#/">Overview</a><a href="./#/jobs">Jobs</a><a href="./#/modules">Modules</a><a class="wide" href="./#/upload">Upload</a><a href="./#/guides">Guides</a><a href="./docs" aria-current="page">API</a></nav>
        <button class="plain small push" onClick={nextTheme}><span class="wide">Theme: </span>{theme}</button>
      </header>
      <main id="main">
        {loaded.value ? <Reference document={loaded.value} named={named} field={field} /> : <Waiting />}
      </main>
    </>
  );
}

function Waiting() {
  const error = fault.value;
  if (!error) return <p class="empty">Loading the API reference …</p>;
  if (error.status === 401) return <p class="empty">The API reference needs an API key: <a href="./">log in</a>, then come back.</p>;
  return <p class="empty bad" role="alert">The API reference could not be loaded. {error.message}</p>;
}

function Reference({ document: api, named, field }: { document: ApiDocument; named: string; field: { current: HTMLInputElement | null } }) {
  document.title = "API · modserve";
  const entries = entriesOf(api).filter((one) => isFound(one, search.value));
  return (
    <>
      <div class="title">
        <h1>API <span class="quiet">{api.info.version}</span></h1>
        <span class="push row">
          <label class="visually-hidden" for="find">Find</label>
          <input id="find" ref={field} type="search" placeholder="Find ( / )" value={search} onInput={(event) => (search.value = event.currentTarget.value.trim())} />
          <a href="./openapi.json" download="openapi.json">openapi.json</a>
        </span>
      </div>
      <div class="stack block prose"><Text of={api.info.description.trim()} /></div>
      {entries.length === 0 && <p class="panel empty">Nothing matches.</p>}
      {api.tags.map((tag) => {
        const own = entries.filter((one) => one.operation.tags[0] === tag.name);
        if (own.length === 0) return null;
        return (
          <section class="panel block" key={tag.name} aria-label={tag.name}>
            <header><h2>{tag.name}</h2><span class="quiet">{tag.description}</span></header>
            {own.map((one) => <OperationView key={one.operation.operationId} document={api} entry={one} isOpen={one.operation.operationId === named} />)}
          </section>
        );
      })}
    </>
  );
}
