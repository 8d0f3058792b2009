import type { JSX } from "preact";
import { useState } from "preact/hooks";

/** Shows JSON as text with a button that copies it. */
export function Json({ of, label }: { of: unknown; label: string }): JSX.Element {
  if (of === undefined || of === null) return <p class="faint">none</p>;
  const text = JSON.stringify(of, null, 2);
  return (
    <figure class="json">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <Copy text={text} what={label} />
    </figure>
  );
}

export function Copy({ text, what, says = "copy" }: { text: string; what: string; says?: string }): JSX.Element {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("copied");
    } catch {
      say("the browser does not allow it: select the text");
    }
    setTimeout(() => say(""), 2000);
  };
  return (
    <button type="button" class="copy" onClick={() => void copy()} aria-label={`copy ${what}`}>
      {said || says}
    </button>
  );
}
