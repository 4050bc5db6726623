/** Screens in separate files, loaded when they are first needed. */
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
        () => (fault.value = "This part of the page could not be loaded. Reload the page: the server may be down, or may have been updated."),
      );
    }, []);
    if (isThere.value && loaded) {
      const Found = loaded;
      return <Found {...props} />;
    }
    return fault.value ? <p class="empty bad" role="alert">{fault}</p> : <p class="empty">Loading …</p>;
  };
}
