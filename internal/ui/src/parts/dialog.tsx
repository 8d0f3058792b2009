import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** A modal dialog. Escape and the button close it. It has the keys as soon as it is asked for: one pressed right after is meant for it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }): JSX.Element {
  const e = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    e.current?.showModal();
    e.current?.querySelector<HTMLElement>("form :is(input, select, textarea)")?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={e} aria-label={title} onClose={close} onClick={(event) => event.target === e.current && e.current?.close()}>
      <div class="dialog">
        <header>
          <h2>{title}</h2>
          <button type="button" class="quiet" onClick={() => e.current?.close()} aria-label="close">
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
