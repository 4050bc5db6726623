/** Asks for confirmation. */
import { useEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  text: string;
  label: string;
  onAnswer: (isSure: boolean) => void;
}

export function Confirm({ title, text, label, onAnswer }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={() => onAnswer(dialog.current?.returnValue === "sure")} aria-labelledby="confirm">
      <form method="dialog" class="stack">
        <h2 id="confirm">{title}</h2>
        <p>{text}</p>
        <div class="row">
          <button class="push" value="">Leave it</button>
          <button class="primary" value="sure">{label}</button>
        </div>
      </form>
    </dialog>
  );
}
