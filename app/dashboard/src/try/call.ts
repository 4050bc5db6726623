/** A prediction's request, and the same as a shell command and as a Python script. */
import { Refused, send } from "../api/client";
import type { Answer } from "./inputs";

export interface Call {
  module: string;
  topK: number | null;
  /** The JSON body, or a file that is sent as it is. */
  body: object | File;
}

export interface Answered {
  call: Call;
  answer: Answer;
  /** From the click to the answer. */
  seconds: number;
  /** The part of it spent in the server; null if unknown. */
  serverSeconds: number | null;
}

const PATH = "/v1/modules/{module}/predict";
export const KEY_VARIABLE = "MODSERVE_KEY";

export async function ask(call: Call, signal: AbortSignal): Promise<Answered> {
  const begun = performance.now();
  const { body } = call;
  const options = { path: { module: call.module }, query: queryOf(call), signal };
  const response = await send("POST", PATH, body instanceof File ? { ...options, raw: body, headers: { "Content-Type": body.type } } : { ...options, body });
  const text = await response.text();
  const seconds = (performance.now() - begun) / 1000;
  const told = /dur=([\d.]+)/.exec(response.headers.get("Server-Timing") ?? "");
  try {
    return { call, answer: JSON.parse(text) as Answer, seconds, serverSeconds: told ? Number(told[1]) / 1000 : null };
  } catch {
    throw new Refused(response.status, "unknown", "The answer is not JSON.");
  }
}

function queryOf({ topK }: Call): { top_k?: number } {
  return topK === null ? {} : { top_k: topK };
}

function urlOf(call: Call): string {
  const { href } = new URL(`.${PATH.replace("{module}", encodeURIComponent(call.module))}`, document.baseURI);
  return call.topK === null ? href : `${href}?top_k=${call.topK}`;
}

export function asCurl(call: Call, isKeyNeeded: boolean): string {
  const key = isKeyNeeded ? ` \\\n  -H "Authorization: Bearer $${KEY_VARIABLE}"` : "";
  const { body } = call;
  if (body instanceof File) return `curl -T ${quoted(body.name)} -H 'Content-Type: ${body.type}'${key} \\\n  ${quoted(urlOf(call))}`;
  return `curl ${quoted(urlOf(call))} -H 'Content-Type: application/json'${key} \\\n  -d ${quoted(JSON.stringify(body))}`;
}

/** Only with Python's standard library, so that it runs everywhere. */
export function asPython(call: Call, isKeyNeeded: boolean): string {
  const { body } = call;
  const isFile = body instanceof File;
  const key = isKeyNeeded ? `, "Authorization": "Bearer " + os.environ["${KEY_VARIABLE}"]` : "";
  return [
    `import json${isKeyNeeded ? ", os" : ""}, urllib.request`,
    "",
    isFile ? `body = open(${JSON.stringify(body.name)}, "rb").read()` : `body = ${pythonBytes(JSON.stringify(body))}`,
    `headers = {"Content-Type": "${isFile ? body.type : "application/json"}", "Accept": "application/json"${key}}`,
    `request = urllib.request.Request(${JSON.stringify(urlOf(call))}, body, headers)`,
    "answer = json.load(urllib.request.urlopen(request))",
    'print(answer["outputs"])',
    "",
  ].join("\n");
}

/** Quote a text for a shell; within single quotes, a single quote itself must be outside of them. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Most JSON is also Python; with true, false or null it is passed as text instead. */
function pythonBytes(json: string): string {
  return /\b(true|false|null)\b/.test(json) ? `${JSON.stringify(json)}.encode()` : `json.dumps(${json}).encode()`;
}
