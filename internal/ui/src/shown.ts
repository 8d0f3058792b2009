import { signal } from "@preact/signals";

/** The moment that is shown, if the engine is a copy of the past; null for the present. */
export const shown = signal<number | null>(null);
