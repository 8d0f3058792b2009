import { signal } from "@preact/signals";

/** Where the page is: the segments of its path, decoded, and its query. The address bar holds all of it, so a link shows the same. */
export interface Place {
  path: readonly string[];
  query: URLSearchParams;
}

const base = new URL(document.baseURI).pathname;

function read(): Place {
  const rest = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : "";
  const path = rest
    .split("/")
    .filter((s) => s !== "")
    .map((s) => {
      try {
        return decodeURIComponent(s);
      } catch {
        return s;
      }
    });
  return { path, query: new URLSearchParams(location.search) };
}

export const place = signal<Place>(read());
addEventListener("popstate", () => (place.value = read()));

/** The address of a screen, for links. */
export function to(path: readonly string[], query?: URLSearchParams | Record<string, string>): string {
  const q = new URLSearchParams(query).toString();
  return base + path.map(encodeURIComponent).join("/") + (q ? `?${q}` : "");
}

/** The address of a document of Sagalog, or of a section of it: docs/waiting.md is waiting. The node serves it beside the page. */
export function manual(name: string, section?: string): string {
  return `${base}docs/${name}${section === undefined ? "" : `#${section}`}`;
}

export function go(href: string, replace = false): void {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  place.value = read();
  if (!replace) scrollTo(0, 0);
}

/** Changes parameters of the query and keeps the rest; an empty value takes one away. */
export function refine(changes: Record<string, string | readonly string[]>, replace = false): void {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const v of typeof value === "string" ? [value] : value) if (v !== "") query.append(name, v);
  }
  go(to(place.value.path, query), replace);
}

/** Makes links of the page change the place instead of loading the page again. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const a = (event.target as Element).closest("a");
  if (!a?.href || a.target || a.hasAttribute("download") || a.origin !== location.origin || !a.pathname.startsWith(base)) return;
  if (a.pathname.startsWith(`${base}v1/`) || a.pathname.startsWith(`${base}docs/`) || a.pathname.startsWith(`${base}openapi`) || a.pathname === `${base}metrics`) return;
  event.preventDefault();
  go(a.pathname + a.search);
}
