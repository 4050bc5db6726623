/** Screens that are files of their own, fetched when they are first wanted. */
import type { FunctionComponent } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

export function lazily<Props extends object>(load: () => Promise<FunctionComponent<Props>>): FunctionComponent<Props> {
  let loaded: FunctionComponent<Props> | null = null;
  return function Lazy(props: Props) {
    const fault = useSignal("");
    const isThere = useSignal(loaded !== null);
    useEffect(() => {
      if (loaded) return;
      load().then(
        (found) => {
          loaded = found;
          isThere.value = true;
        },
        () => (fault.value = "This part of the page could not be loaded. Load the page again: the server may be away, or of another version by now."),
      );
    }, []);
    if (isThere.value && loaded) {
      const Found = loaded;
      return <Found {...props} />;
    }
    return fault.value ? <p class="empty bad" role="alert">{fault}</p> : <p class="empty">Loading …</p>;
  };
}
