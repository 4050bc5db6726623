/** What the user has given for one input. */

export type Given =
  | { kind: "tensor"; value: unknown }
  | { kind: "text"; text: string }
  /** A file that is sent as it is: an image, or arrays. */
  | { kind: "file"; file: File }
  | { kind: "nothing"; why: string };

export const NOTHING: Given = { kind: "nothing", why: "" };

export function nothing(why: string): Given {
  return { kind: "nothing", why };
}

/** Return the body of a prediction, or a text that says what is missing. */
export async function bodyOf(given: ReadonlyMap<string, Given>): Promise<object | File | string> {
  const all = [...given];
  const [only] = all;
  if (all.length === 1 && only?.[1].kind === "file") return only[1].file;
  const inputs: Record<string, unknown> = {};
  for (const [name, one] of all) {
    if (one.kind === "nothing") return `${name}: ${one.why || "nothing is given yet"}.`;
    if (one.kind === "tensor") inputs[name] = one.value;
    else if (one.kind === "text") inputs[name] = one.text;
    else if (!one.file.type.startsWith("image/")) return `${name}: a file of arrays goes alone; give its numbers as JSON.`;
    else inputs[name] = { b64: await base64(one.file) };
  }
  return { inputs };
}

async function base64(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** Return numbers as an npy file. */
export function npy(values: Float32Array<ArrayBuffer>, sizes: readonly number[]): File {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${sizes.join(", ")},), }`;
  // Padded so that the numbers begin at a multiple of 64 bytes, as the format requires.
  const head = `${text}${" ".repeat(63 - ((10 + text.length) % 64))}\n`;
  const magic = new Uint8Array([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length % 256, head.length >> 8]);
  return new File([magic, head, values], "example.npy", { type: "application/x-npy" });
}
