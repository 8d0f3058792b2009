import { effect, signal } from "@preact/signals";

const kept = "theme";
const themes = ["", "light", "dark"] as const;
type Theme = (typeof themes)[number];

/** The theme that the person chose; "" is that of the system. */
export const theme = signal<Theme>(themes.find((t) => t === localStorage.getItem(kept)) ?? "");
effect(() => {
  document.documentElement.style.colorScheme = theme.value;
});

export function nextTheme(): void {
  theme.value = themes[(themes.indexOf(theme.value) + 1) % themes.length] ?? "";
  localStorage.setItem(kept, theme.value);
}
