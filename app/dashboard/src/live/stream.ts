/** Server-sent events over fetch, because EventSource does not tell why a stream was refused. */

export interface Frame {
  id: string;
  type: string;
  data: string;
}

/**
 * Read a stream to its end.
 *
 * @param onFrame - takes each event.
 * @param onSilence - called for each comment, which the server sends when there is nothing new.
 */
export async function readFrames(
  response: Response,
  onFrame: (frame: Frame) => void,
  onSilence: () => void,
): Promise<void> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      if (block.startsWith(":")) onSilence();
      else deliver(block, onFrame);
    }
  }
}

function deliver(block: string, onFrame: (frame: Frame) => void): void {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 2));
  }
  const data = fields.get("data");
  if (data === undefined) return;
  onFrame({ id: fields.get("id") ?? "", type: fields.get("event") ?? "message", data });
}
