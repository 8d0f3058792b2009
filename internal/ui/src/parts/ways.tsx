import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Copy } from "./json";

/** Ways to do the same from a terminal, as tabs: the name of each, and its line to copy. Arrow keys move between the tabs. */
export function Ways({ of }: { of: Readonly<Record<string, string>> }): JSX.Element {
  const names = Object.keys(of);
  const [at, set] = useState(names[0] ?? "");
  const list = useRef<HTMLDivElement>(null);
  const line = of[at] ?? "";
  const move = (e: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (by === undefined) return;
    e.preventDefault();
    const next = (names.indexOf(at) + by + names.length) % names.length;
    set(names[next] ?? at);
    list.current?.querySelectorAll("button")[next]?.focus();
  };
  return (
    <section class="ways" aria-label="the same from a terminal">
      <h3>The same from a terminal</h3>
      <div ref={list} class="tabs" role="tablist" aria-label="ways" onKeyDown={move}>
        {names.map((n) => (
          <button key={n} id={`way-${n}`} type="button" role="tab" aria-selected={n === at} aria-controls="way" tabIndex={n === at ? 0 : -1} onClick={() => set(n)}>
            {n}
          </button>
        ))}
      </div>
      <div id="way" class="json" role="tabpanel" aria-labelledby={`way-${at}`}>
        <pre tabIndex={0}>{line}</pre>
        <Copy text={line} what={`the ${at} line`} />
      </div>
    </section>
  );
}
