/** Asks for an API key. */
import { useSignal } from "@preact/signals";
import { isLoggedOut, logIn } from "../api/session";
import { followEvents } from "../live/events";
import { Brand } from "./brand";

export function Login() {
  const fault = useSignal("");
  const isBusy = useSignal(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const key = String(new FormData(event.target as HTMLFormElement).get("key") ?? "").trim();
    isBusy.value = true;
    fault.value = "";
    try {
      await logIn(key);
      if (isLoggedOut.value) fault.value = "This key cannot be used here: the dashboard needs one of scope read, train or admin.";
      else followEvents();
    } catch (error) {
      fault.value = (error as Error).message;
    }
    isBusy.value = false;
  };
  return (
    <main>
      <form class="panel login" onSubmit={(event) => void submit(event)}>
        <h1><Brand /> asks for a key</h1>
        <label>
          API key
          <input name="key" type="password" autocomplete="current-password" spellcheck={false} required autofocus aria-describedby="key-fault" />
        </label>
        <p class="fault bad" id="key-fault" role="alert">{fault}</p>
        <button class="primary" disabled={isBusy}>Log in</button>
        <p class="quiet">An operator makes one with <code>modserve keys add</code>. The page does not keep it: the browser gets a cookie, which is valid until it is closed, for a week at most, or until the server is restarted.</p>
      </form>
    </main>
  );
}
