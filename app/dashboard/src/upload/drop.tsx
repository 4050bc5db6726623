/** A place to drop files, or to choose them. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { dropped } from "./files";

interface Props {
  says: string;
  /** Whether it takes one file, dropped on it, or any number, dropped anywhere on the page. */
  isOfOne?: boolean;
  onFiles: (files: File[]) => void;
}

export function DropZone({ says, isOfOne = false, onFiles }: Props) {
  const isOver = useSignal(false);
  const zone = useRef<HTMLDivElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const over = (event: DragEvent): void => {
      event.preventDefault();
      isOver.value = true;
    };
    const out = (event: DragEvent): void => {
      if (isOfOne || event.relatedTarget === null) isOver.value = false;
    };
    const drop = (event: DragEvent): void => {
      event.preventDefault();
      isOver.value = false;
      if (event.dataTransfer) void dropped(event.dataTransfer).then(onFiles);
    };
    const target: EventTarget = (isOfOne && zone.current) || window;
    const hears = [["dragover", over], ["dragleave", out], ["drop", drop]] as [string, (event: Event) => void][];
    for (const [type, call] of hears) target.addEventListener(type, call);
    return () => {
      for (const [type, call] of hears) target.removeEventListener(type, call);
    };
  }, [onFiles]);
  const take = (event: { currentTarget: HTMLInputElement }): void => {
    onFiles(Array.from(event.currentTarget.files ?? []));
    event.currentTarget.value = "";
  };
  return (
    <div ref={zone} class={`drop ${isOver.value ? "over" : ""}`}>
      <p>{says}</p>
      <p class="row">
        <button type="button" onClick={() => files.current?.click()}>{isOfOne ? "Choose a file" : "Choose files"}</button>
        {!isOfOne && <button type="button" onClick={() => folder.current?.click()}>Choose a folder</button>}
      </p>
      <input ref={files} type="file" multiple={!isOfOne} hidden aria-label="Files" onChange={take} />
      <input ref={(input) => { input?.setAttribute("webkitdirectory", ""); folder.current = input; }} type="file" multiple hidden aria-label="Folder" onChange={take} />
    </div>
  );
}
