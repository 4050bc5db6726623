/** The parts of the OpenAPI document that are shown. */

export interface Schema {
  $ref?: string;
  type?: string | string[];
  title?: string;
  description?: string;
  format?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  additionalProperties?: Schema | boolean;
}

export interface Media {
  schema?: Schema;
  example?: unknown;
}

export interface Operation {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema?: Schema }[];
  requestBody?: { required?: boolean; description?: string; content: Record<string, Media> };
  responses: Record<string, { description: string; content?: Record<string, Media> }>;
  security?: Record<string, string[]>[];
}

export interface ApiDocument {
  info: { title: string; version: string; description: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

export interface Entry {
  verb: string;
  path: string;
  operation: Operation;
}

export function entriesOf(document: ApiDocument): Entry[] {
  return Object.entries(document.paths).flatMap(([path, verbs]) =>
    Object.entries(verbs).map(([verb, operation]) => ({ verb: verb.toUpperCase(), path, operation })),
  );
}

/** Whether an entry contains all words of a search. */
export function isFound({ verb, path, operation }: Entry, search: string): boolean {
  const text = `${verb} ${path} ${operation.summary} ${operation.description} ${operation.operationId}`.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Return the schema that `$ref` refers to, with its name. */
export function resolved(document: ApiDocument, schema: Schema): [string, Schema] {
  const name = schema.$ref?.split("/").at(-1);
  return name ? [name, document.components.schemas[name] ?? {}] : ["", schema];
}

/** A schema's type in a word or two. */
export function typeOf(schema: Schema): string {
  if (schema.$ref) return schema.$ref.split("/").at(-1) ?? "";
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices) return choices.map(typeOf).join(" | ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${schema.items ? typeOf(schema.items) : "anything"}`;
  const kind = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type;
  if (kind === "object" && typeof schema.additionalProperties === "object") return `object of ${typeOf(schema.additionalProperties)}`;
  return [kind ?? "anything", schema.format].filter(Boolean).join(", ");
}

/** Names of the schemas that a schema refers to. */
export function namesIn(schema: Schema): string[] {
  if (schema.$ref) return [schema.$ref.split("/").at(-1) ?? ""];
  const inner = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  if (schema.items) inner.push(schema.items);
  if (typeof schema.additionalProperties === "object") inner.push(schema.additionalProperties);
  return [...new Set(inner.flatMap(namesIn))];
}

/** The request as a curl command. */
export function curlOf({ verb, path, operation }: Entry, base: string): string {
  const needsKey = (operation.security ?? []).length > 0;
  const media = operation.requestBody?.content["application/json"];
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => name.toUpperCase());
  const parts = [verb === "GET" ? "curl" : `curl -X ${verb}`, `${base}${filled}`];
  if (needsKey) parts.push('-H "Authorization: Bearer $MODSERVE_API_KEY"');
  if (media?.example !== undefined) parts.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(media.example).replaceAll("'", "'\\''")}'`);
  else if (operation.requestBody) parts.push("--data-binary @FILE");
  return parts.join(" \\\n  ");
}
