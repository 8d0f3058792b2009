import type { ComponentChildren, JSX } from "preact";
import { around, layOut, type Said } from "./layout";
import { Copy } from "./json";
import "./marked.css";

/** So many characters around the place where a text ceases to be JSON are marked. */
const about = 12;

/** Shows JSON laid out, with faults marked at their places. Below is the pointer to the value that the places are in. */
export function Marked({ of, faults, below, label }: { of: string; faults: readonly Said[]; below: string; label: string }): JSX.Element {
  const wanted = new Set(faults.flatMap((f) => around(below + f.pointer)));
  const laid = layOut(of, wanted);
  const marks = new Map<number, { from: number; to: number; says: string[] }>();
  if ("stops" in laid) {
    const from = Math.min(laid.stops, Math.max(0, of.length - 1));
    marks.set(from, { from, to: Math.min(of.length, from + about), says: ["from here on it is not JSON"] });
  } else {
    for (const f of faults) {
      const place = around(below + f.pointer).flatMap((p) => laid.places.get(p) ?? [])[0];
      if (!place) continue;
      const mark = marks.get(place.line) ?? { from: place.line, to: place.lineEnd, says: [] };
      mark.says.push(`${f.pointer} ${f.says}`);
      marks.set(place.line, mark);
    }
  }
  const text = "stops" in laid ? of : laid.text;
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const m of [...marks.values()].sort((a, b) => a.from - b.from)) {
    const line = text.indexOf("\n", m.to); // the note is at the end of the line, behind its comma
    const end = line < 0 ? text.length : line;
    parts.push(
      text.slice(at, m.from),
      <mark key={m.from}>{text.slice(m.from, m.to)}</mark>,
      text.slice(m.to, end),
      <em key={`${m.from} says`} class="note">
        {" ← "}
        {m.says.join("; ")}
      </em>,
    );
    at = end;
  }
  parts.push(text.slice(at));
  return (
    <figure class="json">
      <pre tabIndex={0} aria-label={label}>
        {parts}
      </pre>
      <Copy text={text} what={label} />
    </figure>
  );
}
