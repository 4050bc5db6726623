/** The session of the page's user: the name and scopes of the API key, if the server requires one. */
import { computed, signal } from "@preact/signals";
import { get, post, remove, type Session, whenLoggedOut } from "./client";

export const session = signal<Session | null>(null);

/** Whether the user has to log in before anything is shown. */
export const isLoggedOut = computed(() => {
  const now = session.value;
  return now !== null && now.key_needed && !now.scopes.includes("read");
});

export const mayTrain = computed(() => session.value?.scopes.includes("train") ?? false);

export const mayAdminister = computed(() => session.value?.scopes.includes("admin") ?? false);

export async function loadSession(): Promise<void> {
  session.value = await get("/session");
}

export async function logIn(key: string): Promise<void> {
  session.value = await post("/session", { body: { key } });
}

export async function logOut(): Promise<void> {
  await remove("/session");
  await loadSession();
}

whenLoggedOut(() => {
  if (!isLoggedOut.value) session.value = { key_needed: true, name: null, scopes: [] };
});
