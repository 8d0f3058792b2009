/** Where a value stands in a laid out text: the line that it begins on, without its indentation, and the value itself. */
export interface Place {
  line: number;
  lineEnd: number;
  from: number;
  to: number;
}

/** JSON laid out for people; or, if it is no JSON, how many characters of it are well-formed. */
export type LaidOut = { text: string; places: ReadonlyMap<string, Place> } | { stops: number };

const string = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*"/y;
const scalar = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

class Stop extends Error {}

const escape = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1");

/**
 * Lays out JSON, a value a line, and finds the values at the wanted pointers (RFC 6901). It changes nothing but white space: a number of
 * any size stays as it was written, and so does a member that occurs twice, which JSON.parse would not keep.
 */
export function layOut(source: string, wanted: ReadonlySet<string>): LaidOut {
  const places = new Map<string, Place>();
  let at = 0;
  let text = "";
  const space = () => {
    for (let c = source[at]; c === " " || c === "\t" || c === "\n" || c === "\r"; ) c = source[++at];
  };
  const take = (token: RegExp): string => {
    token.lastIndex = at;
    const found = token.exec(source)?.[0];
    if (found === undefined) throw new Stop();
    at += found.length;
    return found;
  };
  const skip = (sign: string): boolean => {
    space();
    if (source[at] !== sign) return false;
    at++;
    return true;
  };
  const value = (pointer: string, indent: string, line: number): void => {
    space();
    const from = text.length;
    const open = source[at];
    let lineEnd: number;
    if (open === "{" || open === "[") {
      const close = open === "{" ? "}" : "]";
      at++;
      text += open;
      lineEnd = text.length;
      if (skip(close)) {
        text += close;
        lineEnd = text.length;
      } else {
        for (let n = 0; n === 0 || skip(","); n++) {
          text += `${n === 0 ? "" : ","}\n${indent}  `;
          const begins = text.length;
          space();
          let name = String(n);
          if (open === "{") {
            const key = take(string);
            if (!skip(":")) throw new Stop();
            name = JSON.parse(key) as string;
            text += `${key}: `;
          }
          value(`${pointer}/${escape(name)}`, `${indent}  `, begins);
        }
        if (!skip(close)) throw new Stop();
        text += `\n${indent}${close}`;
      }
    } else {
      text += source[at] === '"' ? take(string) : take(scalar);
      lineEnd = text.length;
    }
    if (wanted.has(pointer)) places.set(pointer, { line, lineEnd, from, to: text.length });
  };
  try {
    value("", "", 0);
    space();
    return at === source.length ? { text, places } : { stops: at };
  } catch {
    return { stops: at }; // or it is nested too deeply
  }
}

/** A fault of an input, and the place that the engine names. */
export interface Said {
  pointer: string;
  says: string;
}

/** Reads the places from the words of a rejection: "/input/amount: got string, want number; /input/who: ...", or one a line. */
export const placesOf = (detail: string): Said[] => [...detail.matchAll(/(?:^|; )(\/.*?): (.*?)(?=; \/|$)/gm)].map((m) => ({ pointer: m[1] ?? "", says: m[2] ?? "" }));

/** A pointer, and those of the values around it, the innermost first. */
export function around(pointer: string): string[] {
  const all = [pointer];
  for (let p = pointer; p !== ""; ) all.push((p = p.slice(0, p.lastIndexOf("/"))));
  return all;
}
