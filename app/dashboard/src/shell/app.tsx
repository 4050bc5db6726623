/** The frame around every screen. */
import { useEffect } from "preact/hooks";
import { isLoggedOut, loadSession, logOut, session } from "../api/session";
import { clock } from "../format";
import { JobsScreen } from "../jobs/screen";
import { followEvents, leaveEvents, linkSince, linkState, startEvents } from "../live/events";
import { ModulesScreen } from "../modules/list";
import { ModuleScreen } from "../modules/screen";
import { OverviewScreen } from "../overview/screen";
import { lazily } from "../parts/lazy";
import { link, place } from "../router";
import { RunScreen } from "../run/screen";
import { Brand } from "./brand";
import { Help } from "./help";
import { isHelpOpen, listenToKeys } from "./keyboard";
import { Login } from "./login";
import { nextTheme, theme } from "./theme";

const LINK_SAYS = { connecting: "Connecting", live: "Live", broken: "Disconnected", logged_out: "Logged out" };
const LINK_DOT = { connecting: "warn", live: "good", broken: "bad", logged_out: "warn" };
const RETRY_MS = 3000;

const GuidesScreen = lazily(async () => (await import("../guides/screen")).GuidesScreen);
const UploadScreen = lazily(async () => (await import("../upload/screen")).UploadScreen);
const SetupScreen = lazily(async () => (await import("../upload/setup")).SetupScreen);
const GraphScreen = lazily(async () => (await import("../graph/screen")).GraphScreen);
const ParametersScreen = lazily(async () => (await import("../params/screen")).ParametersScreen);
const TrainScreen = lazily(async () => (await import("../train/screen")).TrainScreen);
const TryScreen = lazily(async () => (await import("../try/screen")).TryScreen);

export function App() {
  useEffect(() => {
    listenToKeys();
    void begin();
  }, []);
  useEffect(() => {
    // Another tab has logged in, and its session is also this one's.
    if (linkState.value === "live" && isLoggedOut.value) void loadSession();
  }, [linkState.value]);
  if (session.value === null) return <Bar />;
  if (isLoggedOut.value) return <Login />;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <Bar />
      {linkState.value === "broken" && <Broken />}
      <main id="main" tabIndex={-1}><Screen /></main>
      {isHelpOpen.value && <Help onClose={() => (isHelpOpen.value = false)} />}
    </>
  );
}

/** Load the session, repeatedly until the server can be reached; then follow its events. */
async function begin(): Promise<void> {
  try {
    await loadSession();
    startEvents();
  } catch {
    linkState.value = "broken";
    setTimeout(() => void begin(), RETRY_MS);
  }
}

async function leave(): Promise<void> {
  leaveEvents();
  await logOut();
}

function skip(event: Event): void {
  event.preventDefault(); // the fragment names the screen
  document.getElementById("main")?.focus();
}

function Screen() {
  const { parts } = place.value;
  const [noun, name, what] = parts;
  useEffect(() => scrollTo(0, 0), [parts.join("/")]);
  if (noun === undefined) return <OverviewScreen />;
  if (noun === "jobs" && name === undefined) return <JobsScreen />;
  if (noun === "jobs" && parts.length === 2 && /^[1-9]\d*$/.test(name ?? "")) {
    return <RunScreen key={name} id={Number(name)} />;
  }
  if (noun === "modules" && name === undefined) return <ModulesScreen />;
  if (noun === "modules" && name !== undefined && parts.length === 2) return <ModuleScreen key={name} name={name} />;
  if (noun === "guides" && parts.length <= 2) return <GuidesScreen {...(name ? { name } : {})} />;
  if (noun === "upload" && name === undefined) return <UploadScreen />;
  if (noun === "modules" && name !== undefined && parts.length === 3) {
    if (what === "setup") return <SetupScreen key={name} name={name} />;
    if (what === "graph") return <GraphScreen key={name} name={name} />;
    if (what === "parameters") return <ParametersScreen key={name} name={name} />;
    if (what === "train") return <TrainScreen key={name} name={name} />;
    if (what === "try") return <TryScreen key={name} name={name} />;
  }
  document.title = "Not found · modserve";
  return <p class="empty">There is no such page. <a href={link([])}>Overview</a></p>;
}

function Bar() {
  const noun = place.value.parts[0];
  const current = (is: boolean): { "aria-current"?: "page" } => (is ? { "aria-current": "page" } : {});
  const state = linkState.value;
  return (
    <header class="bar">
      <a class="brand" href={link([])} aria-label="modserve"><Brand /></a>
      <nav aria-label="Screens">
        <a href={link([])} {...current(noun === undefined)}>Overview</a>
        <a href={link(["jobs"])} {...current(noun === "jobs")}>Jobs</a>
        <a href={link(["modules"])} {...current(noun === "modules")}>Modules</a>
        <a class="wide" href={link(["upload"])} {...current(noun === "upload")}>Upload</a>
        <a href={link(["guides"])} {...current(noun === "guides")}>Guides</a>
        <a href="./docs">API</a>
      </nav>
      <span class="push link-state" role="status" title={`Since ${clock(linkSince.value)}`}>
        <span class={`dot ${LINK_DOT[state]}`} /><span>{LINK_SAYS[state]}</span>
      </span>
      <button class="plain small" onClick={nextTheme} title="Light, dark or the system's theme (t)"><span class="wide">Theme: </span>{theme}</button>
      <button class="plain small wide" onClick={() => (isHelpOpen.value = true)} title="Keyboard (?)" aria-label="Keyboard help">?</button>
      {session.value?.name && <button class="plain small" onClick={() => void leave()} title={`Logged in as ${session.value.name}`}>Log out</button>}
    </header>
  );
}

function Broken() {
  return (
    <div class="notice bad-news" role="alert">
      <span>No connection to the server since {clock(linkSince.value)}. The page shows the state at that time, and keeps trying to reconnect.</span>
      <button class="small" onClick={followEvents}>Try now</button>
    </div>
  );
}
