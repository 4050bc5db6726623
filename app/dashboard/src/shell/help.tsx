/** The keyboard shortcuts. */
import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
  ["/", "Find a job, a node, a parameter"],
  ["g o", "Overview"],
  ["g j", "Jobs"],
  ["g m", "Modules"],
  ["g g", "Guides"],
  ["g u", "Upload a model"],
  ["t", "Light, dark or the system's theme"],
  ["?", "This help"],
  ["Esc", "Close"],
];

export function Help({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="help-title">
      <h2 id="help-title">Keyboard</h2>
      <dl class="keys">
        {KEYS.map(([key, says]) => (
          <>
            <dt>{key.split(" ").map((one) => <><kbd>{one}</kbd> </>)}</dt>
            <dd>{says}</dd>
          </>
        ))}
      </dl>
      <form method="dialog"><button class="primary">Close</button></form>
    </dialog>
  );
}
