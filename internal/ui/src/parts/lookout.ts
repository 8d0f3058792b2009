import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { freshness } from "../live";
import { type Quiet, saw } from "./quiet";

const quiet = signal<Quiet | null>(null);
let needed: number | undefined; // when something was last seen to need somebody

/** Tells since when nothing has needed anybody. Nothing is undefined until everything has been read. */
export function useQuiet(nothing: boolean | undefined): Quiet | null {
  const { read } = freshness.value;
  useEffect(() => {
    if (nothing === undefined) return;
    quiet.value = saw(quiet.value, { nothing, read, needed });
    if (!nothing) needed = read;
  }, [nothing, read]);
  return nothing ? quiet.value : null;
}
