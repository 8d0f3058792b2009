import { computed, signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { me } from "../access";

const kept = "payloads";

/** The viewer for whom this tab shows payloads. */
const shownTo = signal(sessionStorage.getItem(kept));

/** Whether payloads are hidden: from viewers, until they ask. They are not secret: the API gives them to every role. */
const hidden = computed(() => me.value === undefined || (me.value.role === "viewer" && shownTo.value !== (me.value.name ?? "")));

function show(): void {
  shownTo.value = me.value?.name ?? "";
  sessionStorage.setItem(kept, shownTo.value);
}

/** A payload: what people put into a task or got out of it. Someone who only looks at how tasks go does not see it unasked. */
export function Payload({ what, children }: { what: string; children: ComponentChildren }): JSX.Element {
  if (me.value === undefined) return <p class="faint">Reading …</p>;
  if (!hidden.value) return <>{children}</>;
  return (
    <p class="faint">
      Hidden, not secret: the API gives it to you.{" "}
      <button type="button" class="link" aria-label={`show ${what}`} title="shows inputs, outputs and error details in this tab, until it is closed" onClick={show}>
        show in this tab
      </button>
    </p>
  );
}
