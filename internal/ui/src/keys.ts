import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** What a key does, and how the help calls it. A key of two parts, such as "g t", is pressed one after the other. */
export interface Key {
  does: string;
  run: () => void;
}
export type Keys = Record<string, Key>;

/** The sets of keys in force, the innermost last. */
export const layers = signal<readonly Keys[]>([]);

/** Adds keys while the component is shown. */
export function useKeys(keys: Keys, on = true): void {
  useEffect(() => {
    if (!on) return;
    layers.value = [...layers.value, keys];
    return () => {
      layers.value = layers.value.filter((l) => l !== keys);
    };
  });
}

const typing = (e: KeyboardEvent): boolean => e.target instanceof Element && e.target.closest("input, textarea, select, [contenteditable]") !== null;
let first = "";
let forget: ReturnType<typeof setTimeout> | undefined;

export function press(e: KeyboardEvent): void {
  if (e.ctrlKey || e.metaKey || e.altKey || (typing(e) && e.key !== "Escape")) return;
  if (document.querySelector("dialog[open]") !== null) return; // a dialog has its own keys
  clearTimeout(forget);
  const pressed = first === "" ? e.key : `${first} ${e.key}`;
  first = "";
  const all = [...layers.value].reverse();
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
