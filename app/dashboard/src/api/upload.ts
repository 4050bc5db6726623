/** Requests with large bodies, by XMLHttpRequest: fetch does not report how much has been sent. */
import type { paths } from "./schema";
import { filled, type Options, Refused, refusal } from "./client";

export interface Sent {
  bytes: number;
  of: number;
}

interface Upload extends Options<Record<string, string>> {
  raw: Blob | FormData;
  onProgress: (sent: Sent) => void;
  signal: AbortSignal;
}

/** Send a body; rejects with `Refused`, or with an `AbortError` if the signal aborts it. */
export function upload<T>(verb: "POST" | "PUT", path: keyof paths, options: Upload): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(verb, filled(path, options));
    for (const [name, value] of Object.entries(options.headers ?? {})) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => options.onProgress({ bytes: loaded, of: total });
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText) as T);
      else reject(refusal(path, request.status, request.responseText));
    };
    request.onerror = () => reject(new Refused(0, "unreachable", "The server cannot be reached, or has ended the connection."));
    request.onabort = () => reject(new DOMException("Cancelled", "AbortError"));
    options.signal.addEventListener("abort", () => request.abort());
    request.send(options.raw);
  });
}
