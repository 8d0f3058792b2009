import { type JSX, render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Me, me, SignIn, SignInAgain, wanted } from "./access";
import { get, type Info, type Whoami } from "./api/client";
import { layers, press, useKeys } from "./keys";
import { freshness, lag, pace, setPace, useLive } from "./live";
import { Dialog } from "./parts/dialog";
import { follow, go, manual, place, to } from "./router";
import { shown } from "./shown";
import "./style.css";
import { exact, setUTC, utc } from "./time";
import { AgentScreen } from "./views/agent";
import { Agents } from "./views/agents";
import { DeadLetters, DeadLetterScreen } from "./views/deadletters";
import { Jobs } from "./views/jobs";
import { Limits, LimitScreen } from "./views/limits";
import { Overview } from "./views/overview";
import { Partitions } from "./views/partitions";
import { ScheduleScreen } from "./views/schedule";
import { Schedules } from "./views/schedules";
import { Task } from "./views/task";
import { Tasks } from "./views/tasks";
import { nextTheme, theme } from "./theme";
import { Workflows, WorkflowScreen } from "./views/workflows";

const screens = [
  ["", "Overview", "o"],
  ["tasks", "Tasks", "t"],
  ["agents", "Agents", "a"],
  ["partitions", "Partitions", "p"],
  ["dead-letters", "Dead letters", "d"],
  ["workflows", "Workflows", "w"],
  ["schedules", "Schedules", "s"],
  ["limits", "Limits", "l"],
  ["jobs", "Jobs", "j"],
] as const;

/** The screen of a place. */
function Screen({ path }: { path: readonly string[] }): JSX.Element {
  const [screen = "", id] = path;
  switch (screen) {
    case "":
      return <Overview />;
    case "tasks":
      return id === undefined ? <Tasks /> : <Task id={id} key={id} />;
    case "agents":
      return id === undefined ? <Agents /> : <AgentScreen name={id} key={id} />;
    case "partitions":
      return <Partitions />;
    case "dead-letters":
      return id === undefined ? <DeadLetters /> : <DeadLetterScreen id={id} key={id} />;
    case "workflows":
      return id === undefined ? <Workflows /> : <WorkflowScreen name={id} key={id} />;
    case "schedules":
      return id === undefined ? <Schedules /> : <ScheduleScreen name={id} key={id} />;
    case "limits":
      return id === undefined ? <Limits /> : <LimitScreen name={id} key={id} />;
    case "jobs":
      return <Jobs />;
    default:
      return (
        <p>
          There is nothing at this address. <a href={to([])}>Go to the overview</a>
        </p>
      );
  }
}

function Page(): JSX.Element {
  const { path } = place.value;
  const screen = path[0] ?? "";
  const who = useLive<Whoami>("whoami", (signal) => get("v1/whoami", { signal }), 30);
  useEffect(() => {
    me.value = who.data;
  }, [who.data]);
  const info = useLive<Info>("info", (signal) => get("v1/info", { signal }), 30);
  const past = info.data?.past;
  useEffect(() => {
    shown.value = past === undefined ? null : Date.parse(past);
  }, [past]);
  const [help, setHelp] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  useKeys({
    "?": { does: "this help", run: () => setHelp(true) },
    "/": { does: "search", run: () => search.current?.focus() },
    ...Object.fromEntries(screens.map(([name, title, key]) => [`g ${key}`, { does: title, run: () => go(to(name === "" ? [] : [name])) }])),
  });
  const title = path.length > 1 ? path.slice(1).join("/") : (screens.find(([name]) => name === screen)?.[1] ?? "not found");
  useEffect(() => {
    document.title = `${title} · Sagalog`;
  }, [title]);
  useEffect(() => {
    document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on a narrow screen the rail scrolls
  }, [screen]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href={to([])}>
          Sagalog <span class="faint">{info.data?.namespace}</span>
        </a>
        <Search box={search} />
        <Lag />
        <label class="pace">
          <span class="hidden">refresh</span>
          <select value={String(pace.value)} onChange={(e) => setPace(Number(e.currentTarget.value))}>
            <option value="1">live</option>
            <option value="5">5 s</option>
            <option value="30">30 s</option>
            <option value="0">off</option>
          </select>
        </label>
        <Me />
        <button type="button" class="quiet" onClick={() => setUTC(!utc.value)} title="time zone of exact times">
          {utc.value ? "UTC" : "local"}
        </button>
        <button type="button" class="quiet" onClick={nextTheme} title="theme: system, light or dark" aria-label={`theme: ${theme.value || "system"}`}>
          {theme.value || "theme"}
        </button>
        <button type="button" class="quiet" onClick={() => setHelp(true)} aria-label="keys">
          ?
        </button>
      </header>
      <nav class="rail" aria-label="screens">
        {screens.map(([name, text]) => (
          <a key={name} href={to(name === "" ? [] : [name])} aria-current={screen === name ? "page" : undefined}>
            {text}
          </a>
        ))}
        <a class="docs" href={manual("")}>
          Documents
        </a>
        <small class="faint">{info.data?.version}</small>
      </nav>
      <main id="main" tabIndex={-1}>
        {past !== undefined && (
          <p class="notice" role="note">
            This is the past, as of {exact(past)}. It can only be read, and does not go on.
          </p>
        )}
        <Screen path={path} />
      </main>
      {help && (
        <Dialog title="Keys" close={() => setHelp(false)}>
          <dl class="keys">
            {layers.value.flatMap((l) =>
              Object.entries(l.keys).map(([key, k]) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{k.does}</dd>
                </div>
              )),
            )}
          </dl>
        </Dialog>
      )}
    </>
  );
}

/** How fresh the screen is. It changes every second, and only it is drawn again then. */
function Lag(): JSX.Element {
  return (
    <span class={`lag ${lag.value.kind}`} role="status" title={freshness.value.words}>
      {lag.value.words}
    </span>
  );
}

/** An ID opens its task; key:value filters the list. */
function Search({ box }: { box: { current: HTMLInputElement | null } }): JSX.Element {
  const [text, set] = useState("");
  const submit = (e: Event) => {
    e.preventDefault();
    const words = text.trim();
    if (words === "") return;
    box.current?.blur(); // the keys of the screen work again
    const query = new URLSearchParams();
    for (const w of words.split(/\s+/)) {
      const i = w.indexOf(":");
      if (i <= 0) {
        go(to(["tasks", words]));
        return set("");
      }
      const name = w.slice(0, i);
      const known: Record<string, string> = { state: "state", workflow: "workflow", since: "since", until: "until", schedule: "schedule", step: "failed_step", error: "error_code", older: "older_than", waits: "waiting_for", agent: "agent" };
      query.append(known[name] ?? "label", known[name] ? w.slice(i + 1) : w);
    }
    go(to(["tasks"], query));
  };
  return (
    <form role="search" onSubmit={submit}>
      <input ref={box} type="search" aria-label="search: an ID, or key:value" placeholder="ID, or state:parked workflow:order tenant:acme" value={text} onInput={(e) => set(e.currentTarget.value)} onKeyDown={(e) => e.key === "Escape" && e.currentTarget.blur()} />
    </form>
  );
}

/** The page, or the sign-in while the engine asks for a token. If the page was open, the sign-in is in front of it. */
function Door(): JSX.Element {
  const asked = wanted.value !== null;
  if (asked && me.value === undefined) return <SignIn />;
  return (
    <>
      <div class={asked ? "frame away" : "frame"}>
        <Page />
      </div>
      {asked && <SignInAgain />}
    </>
  );
}

addEventListener("keydown", press);
document.addEventListener("click", follow);
const root = document.getElementById("page");
if (root) render(<Door />, root);
