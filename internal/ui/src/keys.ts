import { signal } from "@preact/signals";
import { useLayoutEffect, useState } from "preact/hooks";

/** What a key does, and how the help calls it. A key of two parts, such as "g t", is pressed one after the other. */
export interface Key {
  does: string;
  run: () => void;
}
export type Keys = Record<string, Key>;

/** One component's keys, as its last rendering left them, and how many components were born before it. */
interface Layer {
  keys: Keys;
  born: number;
}

/** The keys in force, the innermost component's last. */
export const layers = signal<readonly Layer[]>([]);
let born = 0;

/**
 * Adds keys while the component is shown. What they do is that of the last rendering, even where the browser has not painted it yet:
 * a key that is pressed right after another one meets what the first one changed.
 */
export function useKeys(keys: Keys, on = true): void {
  const layer = useState<Layer>(() => ({ keys, born: born++ }))[0];
  layer.keys = keys;
  useLayoutEffect(() => {
    if (!on) return;
    layers.value = [...layers.value, layer].sort((a, b) => a.born - b.born);
    return () => {
      layers.value = layers.value.filter((l) => l !== layer);
    };
  }, [on]);
}

const typing = (e: KeyboardEvent): boolean => e.target instanceof Element && e.target.closest("input:not([type=range]), textarea, select, [contenteditable]") !== null;
/** Enter on a link or a button is theirs, whatever else the screen does at Enter. */
const theirs = (e: KeyboardEvent): boolean => (e.key === "Enter" || e.key === " ") && e.target instanceof Element && e.target.closest("a[href], button, summary") !== null;
let first = "";
let forget: ReturnType<typeof setTimeout> | undefined;

export function press(e: KeyboardEvent): void {
  const written = e.getModifierState("AltGraph"); // many keyboards need it for [ and {
  if (((e.ctrlKey || e.metaKey || e.altKey) && !written) || (typing(e) && e.key !== "Escape") || theirs(e)) return;
  if (document.querySelector("dialog[open]") !== null) return; // a dialog has its own keys
  clearTimeout(forget);
  const pressed = first === "" ? e.key : `${first} ${e.key}`;
  first = "";
  const all = layers.value.map((l) => l.keys).reverse();
  const found = all.map((l) => l[pressed]).find((k) => k !== undefined);
  if (found) {
    e.preventDefault();
    found.run();
    return;
  }
  if (all.some((l) => Object.keys(l).some((k) => k.startsWith(`${pressed} `)))) {
    first = pressed;
    forget = setTimeout(() => (first = ""), 1500);
  }
}
