/** One operation: its description, parameters, body and responses. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type ApiDocument, curlOf, type Entry, type Media, namesIn, resolved, type Schema, typeOf } from "./document";

export function OperationView({ document, entry, isOpen }: { document: ApiDocument; entry: Entry; isOpen: boolean }) {
  const { verb, path, operation } = entry;
  const opened = useSignal(isOpen);
  return (
    <details class="operation" id={operation.operationId} open={isOpen} onToggle={(event) => (opened.value = event.currentTarget.open)}>
      <summary>
        <span class={`verb ${verb.toLowerCase()}`}>{verb}</span>
        <code>{path}</code>
        <span class="quiet">{operation.summary}</span>
      </summary>
      {opened.value && <Details document={document} entry={entry} />}
    </details>
  );
}

function Details({ document, entry }: { document: ApiDocument; entry: Entry }) {
  const { operation } = entry;
  const body = operation.requestBody;
  const scopes = [...new Set((operation.security ?? []).flatMap((one) => Object.values(one).flat()))];
  const base = new URL(".", location.href).href.replace(/\/$/, "");
  return (
    <div class="inside stack">
      <Text of={operation.description} />
      {scopes.length > 0 && <p class="quiet">If the server has API keys, this needs one of scope {scopes.join(" or ")}.</p>}
      {operation.parameters?.length ? (
        <Table head={["Parameter", "In", "Type", "Description"]}>
          {operation.parameters.map((one) => (
            <tr key={`${one.in} ${one.name}`}>
              <td><code>{one.name}</code>{one.required ? " *" : ""}</td><td>{one.in}</td>
              <td>{one.schema ? typeOf(one.schema) : ""}{one.schema?.default !== undefined && one.schema.default !== null && JSON.stringify(one.schema.default) !== "[]" ? `, default ${JSON.stringify(one.schema.default)}` : ""}</td>
              <td><Inline of={one.description ?? ""} /></td>
            </tr>
          ))}
        </Table>
      ) : null}
      {body && <section class="stack"><h3>Body{body.required ? "" : " (optional)"}</h3>{body.description && <Text of={body.description} />}<Contents document={document} content={body.content} /></section>}
      <section class="stack">
        <h3>Responses</h3>
        {Object.entries(operation.responses).map(([status, answer]) => (
          <div key={status} class="reply"><b>{status}</b> <Inline of={answer.description} />
            {status < "300" && answer.content && <Contents document={document} content={answer.content} />}
          </div>
        ))}
      </section>
      <section class="stack"><h3>With curl</h3><pre class="code" tabIndex={0}>{curlOf(entry, base)}</pre></section>
    </div>
  );
}

function Contents({ document, content }: { document: ApiDocument; content: Record<string, Media> }) {
  return (
    <>
      {Object.entries(content).map(([kind, media]) => (
        <div key={kind} class="stack">
          <p><code>{kind}</code>{media.schema ? <>: {typeOf(media.schema)}</> : null}</p>
          {media.schema && namesIn(media.schema).map((name) => <Fields key={name} document={document} schema={{ $ref: `#/${name}` }} />)}
          {media.schema && !media.schema.$ref && media.schema.properties && <Fields document={document} schema={media.schema} />}
          {media.example !== undefined && <pre class="code" tabIndex={0}>{JSON.stringify(media.example, null, 2)}</pre>}
        </div>
      ))}
    </>
  );
}

/** The fields of an object; those of nested objects are rendered when they are opened. */
function Fields({ document, schema }: { document: ApiDocument; schema: Schema }) {
  const [name, found] = resolved(document, schema);
  const rows = Object.entries(found.properties ?? {});
  const isOpen = useSignal(false);
  if (rows.length === 0) return found.description ? <Text of={found.description} /> : null;
  const required = new Set(found.required ?? []);
  const names = [...new Set(rows.flatMap(([, field]) => namesIn(field)))].filter((one) => one !== name);
  return (
    <details class="members" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>{name || "fields"}</summary>
      {isOpen.value && (
        <>
          <Table head={["Field", "Type", "Description"]}>
            {rows.map(([field, of]) => (
              <tr key={field}><td><code>{field}</code>{required.has(field) ? " *" : ""}</td><td>{typeOf(of)}</td><td><Inline of={of.description ?? ""} /></td></tr>
            ))}
          </Table>
          {names.map((one) => <Fields key={one} document={document} schema={{ $ref: `#/${one}` }} />)}
        </>
      )}
    </details>
  );
}

function Table({ head, children }: { head: string[]; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={head[0] ?? ""}>
      <table><thead><tr>{head.map((one) => <th scope="col" key={one}>{one}</th>)}</tr></thead><tbody>{children}</tbody></table>
    </div>
  );
}

export function Text({ of }: { of: string }) {
  return <>{of.split(/\n\n+/).map((one, at) => <p key={at}><Inline of={one} /></p>)}</>;
}

/** A text in which `words` between backticks are code. */
function Inline({ of }: { of: string }) {
  return <>{of.split(/`+([^`]+)`+/).map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part))}</>;
}
