/** Where files are dropped, or chosen by hand. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { dropped } from "./files";

export function DropZone({ says, onFiles }: { says: string; onFiles: (files: File[]) => void }) {
  const isOver = useSignal(false);
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const over = (event: DragEvent): void => {
      event.preventDefault();
      isOver.value = true;
    };
    const out = (event: DragEvent): void => {
      if (event.relatedTarget === null) isOver.value = false;
    };
    const drop = (event: DragEvent): void => {
      event.preventDefault();
      isOver.value = false;
      if (event.dataTransfer) void dropped(event.dataTransfer).then(onFiles);
    };
    const hears = [["dragover", over], ["dragleave", out], ["drop", drop]] as const;
    for (const [type, call] of hears) addEventListener(type, call);
    return () => {
      for (const [type, call] of hears) removeEventListener(type, call);
    };
  }, [onFiles]);
  const take = (event: { currentTarget: HTMLInputElement }): void => {
    onFiles(Array.from(event.currentTarget.files ?? []));
    event.currentTarget.value = "";
  };
  return (
    <div class={`drop ${isOver.value ? "over" : ""}`}>
      <p>{says}</p>
      <p class="row">
        <button onClick={() => files.current?.click()}>Choose files</button>
        <button onClick={() => folder.current?.click()}>Choose a folder</button>
      </p>
      <input ref={files} type="file" multiple hidden aria-label="Files" onChange={take} />
      <input ref={(input) => { input?.setAttribute("webkitdirectory", ""); folder.current = input; }} type="file" multiple hidden aria-label="Folder" onChange={take} />
    </div>
  );
}
