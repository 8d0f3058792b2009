import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { place, to } from "../router";
import { Dialog } from "./dialog";
import "./saved.css";

/** A list of tasks that somebody comes back to: a name, and the query of its address. */
interface View {
  name: string;
  query: string;
}

/** So many views are kept, and a name has so many letters. */
const most = 20;
const longest = 40;
/** Views are this browser's, and those of a namespace: two may be behind one host. */
const key = `views ${new URL(document.baseURI).pathname}`;

function read(): readonly View[] {
  try {
    const all: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    if (!Array.isArray(all)) return [];
    return all.filter((v: Partial<View> | null): v is View => typeof v?.name === "string" && typeof v.query === "string").slice(0, most);
  } catch {
    return [];
  }
}

const views = signal(read());
addEventListener("storage", (e) => {
  if (e.key === key || e.key === null) views.value = read(); // another tab has changed them
});

function keep(all: readonly View[]): void {
  views.value = all;
  localStorage.setItem(key, JSON.stringify(all));
}

/** A query in one order, whatever way led to it. */
const canonical = (query: URLSearchParams): string => {
  const q = new URLSearchParams(query);
  q.sort();
  return q.toString();
};

/** The saved views of the list as tabs, and what saves the list as it is now. */
export function SavedViews(): JSX.Element | null {
  const [asking, ask] = useState(false);
  const here = canonical(place.value.query);
  if (views.value.length === 0 && here === "") return null;
  return (
    <nav class="tabs saved" aria-label="saved views">
      {views.value.map((v) => (
        <span key={v.name} class="view">
          <a href={to(["tasks"], new URLSearchParams(v.query))} aria-current={v.query === here ? "page" : undefined}>
            {v.name}
          </a>
          <button type="button" class="quiet" aria-label={`remove the view ${v.name}`} title="remove this view" onClick={() => keep(views.value.filter((o) => o !== v))}>
            ✕
          </button>
        </span>
      ))}
      {here !== "" && !views.value.some((v) => v.query === here) && (
        <button type="button" class="link" onClick={() => ask(true)}>
          save this view …
        </button>
      )}
      {asking && <SaveDialog query={here} close={() => ask(false)} />}
    </nav>
  );
}

function SaveDialog({ query, close }: { query: string; close: () => void }): JSX.Element {
  const [text, set] = useState("");
  const name = text.trim();
  const replaces = views.value.some((v) => v.name === name);
  const full = !replaces && views.value.length >= most;
  const save = (e: Event) => {
    e.preventDefault();
    if (name === "" || full) return;
    const view = { name, query };
    keep(replaces ? views.value.map((v) => (v.name === name ? view : v)) : [...views.value, view]);
    close();
  };
  return (
    <Dialog title="save this view" close={close}>
      <form onSubmit={save}>
        <p>The filters and columns of the list, under a name. This browser keeps it, for you alone. To give a list to somebody else, send its address.</p>
        <label>
          Name
          <input value={text} maxLength={longest} required onInput={(e) => set(e.currentTarget.value)} />
        </label>
        <p role="status">{full ? `There are ${most} views already: remove one first.` : replaces ? "It takes the place of the view of that name." : ""}</p>
        <div class="buttons">
          <button type="submit" class="main" disabled={full}>
            save
          </button>
        </div>
      </form>
    </Dialog>
  );
}
