/** Requests to the server whose page this is, typed by its OpenAPI document. */
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Job = Schemas["JobView"];
export type EventView = Schemas["EventView"];
export type Histograms = Schemas["HistogramsView"];
export type Series = Schemas["SeriesView"];
export type Executor = Schemas["ExecutorView"];
export type Status = Schemas["StatusView"];
export type Module = Schemas["ModuleView"];
export type Versions = Schemas["VersionsView"];
export type Plan = Schemas["BucketPlanView"];
export type Session = Schemas["SessionView"];
/** An invalid field: what was sent, what is expected, and what to do. */
export type Fault = Schemas["FieldFault"];

type Answer<P extends keyof paths, Verb extends string> =
  paths[P] extends Record<Verb, { responses: infer R }>
    ? R extends { 200: { content: { "application/json": infer T } } }
      ? T
      : R extends { 201: { content: { "application/json": infer T } } }
        ? T
        : R extends { 202: { content: { "application/json": infer T } } }
          ? T
          : null
    : never;

/** Names of a path's query parameters, as its GET has them. */
type QueryOf<P extends keyof paths> = paths[P] extends { get: { parameters: { query?: infer Q } } }
  ? { [Name in keyof Q]?: string | number | undefined }
  : Record<never, never>;

export interface Options<Query = Record<never, never>> {
  /** Values of the path's parameters in braces. */
  path?: Record<string, string | number>;
  query?: Query;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, instead of `body`. */
  raw?: string | Blob | FormData;
  headers?: Record<string, string>;
  /** Statuses other than 2xx whose answers are not problems. */
  accepted?: number[];
  signal?: AbortSignal;
}

/** The server refused a request, or could not be reached (status 0). */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly faults: readonly Fault[] = [],
  ) {
    super(message);
  }
}

/** Called when the server asks for a key: the session has ended. */
let onLoggedOut = (): void => {};
export function whenLoggedOut(call: () => void): void {
  onLoggedOut = call;
}

export async function get<P extends keyof paths>(path: P, options: Options<QueryOf<P>> = {}) {
  return (await (await send("GET", path, options)).json()) as Answer<P, "get">;
}

export async function getText(path: keyof paths, options: Options = {}): Promise<string> {
  return (await send("GET", path, options)).text();
}

export async function post<P extends keyof paths>(path: P, options: Options<QueryOf<P>> = {}) {
  return (await (await send("POST", path, options)).json()) as Answer<P, "post">;
}

export async function put<P extends keyof paths>(path: P, options: Options = {}) {
  return (await (await send("PUT", path, options)).json()) as Answer<P, "put">;
}

export async function remove(path: keyof paths, options: Options = {}): Promise<void> {
  await send("DELETE", path, options);
}

/** Return the address of a path, relative to the page: a proxy may have put the server anywhere. */
export function address<P extends keyof paths>(path: P, options: Options<QueryOf<P>> = {}): string {
  return filled(path, options);
}

export function filled(path: string, options: Options): string {
  const place = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = options.path?.[name];
    if (value === undefined) throw new Error(`${path} needs ${name}`);
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries<string | number | undefined>(options.query ?? {})) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return `.${place}${text && `?${text}`}`;
}

export async function send(verb: string, path: string, options: Options = {}): Promise<Response> {
  const request: RequestInit = { method: verb };
  if (options.signal) request.signal = options.signal;
  if (options.headers) request.headers = options.headers;
  if (options.raw !== undefined) request.body = options.raw;
  if (options.body !== undefined) {
    request.headers = { ...options.headers, "Content-Type": "application/json" };
    request.body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(filled(path, options), request);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refused(0, "unreachable", "The server cannot be reached.");
  }
  if (response.ok || options.accepted?.includes(response.status)) return response;
  throw refusal(path, response.status, await response.text());
}

/** Return the error of a refused request; a 401 leads to the login. */
export function refusal(path: string, status: number, text: string): Refused {
  if (status === 401 && path !== "/session") onLoggedOut();
  try {
    const problem = JSON.parse(text) as Schemas["ProblemView"];
    return new Refused(status, problem.code, problem.detail, problem.errors);
  } catch {
    // A proxy on the way answers in its own form.
    return new Refused(status, "unknown", `The server answered ${status}.`);
  }
}
