import type { JSX } from "preact";
import { token } from "../access";
import { address, type Options } from "../api/client";
import { Copy } from "./json";

/** Quotes a word for a shell, if it needs that. */
export const quote = (s: string): string => (/^[\w./:@=-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`);

/** The command line of a call. The token is named and not shown. */
export function curl(method: string, path: string, o: { query?: Options["query"]; body?: unknown; text?: string }): string {
  const words = ["curl -sS -X", method, quote(address(path, o.query))];
  if (token.value !== "") words.push(`-H "Authorization: Bearer $SAGALOG_TOKEN"`);
  const body = o.text ?? (o.body === undefined ? undefined : JSON.stringify(o.body));
  if (body !== undefined) words.push("-H 'Content-Type: application/json' -d", quote(body));
  return words.join(" ");
}

/** The command lines that do the same, ready to copy. */
export function Terminal({ cli, curl: line }: { cli: string; curl: string }): JSX.Element {
  return (
    <details>
      <summary>the same from a terminal</summary>
      <pre tabIndex={0}>{cli}</pre>
      <Copy text={cli} what="the command" />
      <pre tabIndex={0}>{line}</pre>
      <Copy text={line} what="the curl line" />
    </details>
  );
}
