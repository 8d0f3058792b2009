/** A JSON Schema as far as a form needs it. */
type Schema = Record<string, unknown>;

/** A field of a form. json is the text of any JSON value; a group holds the fields of an object. */
export interface Field {
  /** Where its value stands in the input, as a JSON pointer. */
  pointer: string;
  name: string;
  title: string;
  hint: string;
  kind: "text" | "number" | "integer" | "boolean" | "choice" | "date" | "instant" | "json" | "group";
  required: boolean;
  /** The JSON texts to choose from. */
  choices: readonly string[];
  fields: readonly Field[];
  /** The text that the field holds at first. */
  was: string;
}

/** What the fields hold, by pointer. A field without text is left out of the input. */
export type Values = Readonly<Record<string, string>>;

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === "object" && v !== null && !Array.isArray(v);
const escaped = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1");

/** What of a schema says more than a field of a form can show. */
const beyond = ["oneOf", "anyOf", "allOf", "not", "if", "$ref", "$dynamicRef", "patternProperties"];
/** How often a reference may lead to another one. */
const mostRefs = 8;

/** Follows references into the schema itself. */
function resolve(schema: unknown, root: unknown, left = mostRefs): Schema {
  if (!isObject(schema)) return {};
  const ref = schema["$ref"];
  if (typeof ref !== "string" || !ref.startsWith("#") || left === 0) return schema;
  let at: unknown = root;
  for (const part of ref.slice(1).split("/").slice(1)) at = isObject(at) ? at[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
  const { $ref: _, ...own } = schema;
  return { ...resolve(at, root, left - 1), ...own };
}

/** The type of a schema, where null besides another one does not count. */
function typeOf(s: Schema): string {
  const types = [s["type"]].flat().filter((t) => t !== "null");
  if (types.length === 1 && typeof types[0] === "string") return types[0];
  return types.every((t) => t === undefined) && (isObject(s["properties"]) || Array.isArray(s["required"])) ? "object" : "";
}

/** The fields for an input; undefined if it is to be written as one JSON text. */
export function fieldsOf(schema: unknown): readonly Field[] | undefined {
  return members(resolve(schema, schema), schema, "", 0);
}

function members(s: Schema, root: unknown, pointer: string, depth: number): readonly Field[] | undefined {
  if (typeOf(s) !== "object" || beyond.some((b) => b in s)) return undefined;
  const properties = isObject(s["properties"]) ? s["properties"] : {};
  const required = Array.isArray(s["required"]) ? s["required"].map(String) : [];
  const names = [...new Set([...required, ...Object.keys(properties)])]; // the engine keeps members sorted by name, so their order says nothing
  if (names.length === 0) return undefined;
  return names.map((name) => fieldOf(resolve(properties[name], root), root, { pointer: `${pointer}/${escaped(name)}`, name, required: required.includes(name), depth }));
}

function fieldOf(s: Schema, root: unknown, at: { pointer: string; name: string; required: boolean; depth: number }): Field {
  const text = (k: string): string => (typeof s[k] === "string" ? s[k] : "");
  const f: Field = { pointer: at.pointer, name: at.name, title: text("title") || at.name, hint: text("description"), kind: "json", required: at.required, choices: [], fields: [], was: "" };
  const choices = Array.isArray(s["enum"]) ? s["enum"] : "const" in s ? [s["const"]] : undefined;
  if (choices) {
    f.kind = "choice";
    f.choices = choices.map((c) => JSON.stringify(c));
  } else if (!beyond.some((b) => b in s)) {
    const inner = at.depth === 0 ? members(s, root, at.pointer, 1) : undefined;
    if (inner) return { ...f, kind: "group", fields: inner };
    f.kind = kindOf(typeOf(s), text("format"));
  }
  if ("default" in s) f.was = textOf(f, s["default"]) ?? "";
  return f;
}

function kindOf(type: string, format: string): Field["kind"] {
  if (type === "string") return format === "date" ? "date" : format === "date-time" ? "instant" : "text";
  return type === "number" || type === "integer" || type === "boolean" ? type : "json";
}

/** The text for a value in a field; undefined if the field cannot hold it. */
function textOf(f: Field, value: unknown): string | undefined {
  const json = JSON.stringify(value);
  switch (f.kind) {
    case "json":
      return json;
    case "choice":
      return f.choices.includes(json) ? json : undefined;
    case "boolean":
      return typeof value === "boolean" ? json : undefined;
    case "number":
    case "integer":
      return typeof value === "number" ? json : undefined;
    case "group":
      return undefined;
    case "date":
      return typeof value === "string" && /^\d{4}-\d\d-\d\d$/.test(value) ? value : undefined;
    case "instant":
      return typeof value === "string" ? localOf(value) : undefined;
    default:
      return typeof value === "string" && value !== "" ? value : undefined;
  }
}

/** An instant as the browser's field for it has it: in the browser's zone, without naming it. Instants that are not of whole seconds stay JSON. */
function localOf(instant: string): string | undefined {
  const d = new Date(instant);
  if (Number.isNaN(d.getTime()) || d.getMilliseconds() !== 0) return undefined;
  return new Date(d.getTime() - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** What the fields hold at first. */
export function firstValues(fields: readonly Field[]): Values {
  return Object.fromEntries(fields.flatMap((f) => [...Object.entries(firstValues(f.fields)), ...(f.was === "" ? [] : [[f.pointer, f.was]])]));
}

const empty = (f: Field, values: Values): boolean => (f.kind === "group" ? f.fields.every((g) => empty(g, values)) : (values[f.pointer] ?? "").trim() === "");

/** The input that the fields make, and what is wrong with their texts, by pointer. Whether the values fit the schema the engine says. */
export function inputOf(fields: readonly Field[], values: Values): { input: Record<string, unknown>; wrong: Record<string, string> } {
  const input: Record<string, unknown> = {};
  const wrong: Record<string, string> = {};
  for (const f of fields) {
    if (empty(f, values) && !f.required) continue;
    if (f.kind === "group") {
      const inner = inputOf(f.fields, values);
      Object.assign(wrong, inner.wrong);
      input[f.name] = inner.input;
      continue;
    }
    if (empty(f, values)) {
      wrong[f.pointer] = "is missing";
      continue;
    }
    const text = values[f.pointer] ?? "";
    const v = valueOf(f, text);
    if ("wrong" in v) wrong[f.pointer] = v.wrong;
    else input[f.name] = v.value;
  }
  return { input, wrong };
}

function valueOf(f: Field, text: string): { value: unknown } | { wrong: string } {
  switch (f.kind) {
    case "text":
    case "date":
      return { value: text };
    case "instant":
      return Number.isNaN(Date.parse(text)) ? { wrong: "is not a time" } : { value: new Date(text).toISOString().replace(".000Z", "Z") };
    case "number":
    case "integer":
      return /^-?\d+(\.\d+)?([eE][-+]?\d+)?$/.test(text.trim()) ? parse(text.trim().replace(/^(-?)0+(?=\d)/, "$1")) : { wrong: `is not ${f.kind === "integer" ? "a whole number" : "a number"}` };
    default:
      return parse(text);
  }
}

/** The most digits that a number keeps in a browser. */
const digits = 15;

/** Reads JSON that a browser can pass on as it is. */
export function parse(text: string): { value: unknown } | { wrong: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (e) {
    return { wrong: `is not JSON: ${(e as Error).message}` };
  }
  const numbers = text.replace(/"(\\.|[^"\\])*"/g, "").match(/[\d.]+([eE][-+]?\d+)?/g) ?? [];
  const huge = numbers.find((n) => !Number.isFinite(Number(n)));
  if (huge !== undefined) return { wrong: `has the number ${huge}, which is too large` };
  const long = numbers.find((n) => n.replace(/[eE].*/, "").replace(".", "").replace(/^0+/, "").length > digits);
  return long === undefined ? { value } : { wrong: `has the number ${long}: a browser would change it, since it has more than ${digits} digits. Send it from a terminal.` };
}

/** What the fields hold for an input; a sentence if they cannot hold it. */
export function valuesOf(fields: readonly Field[], input: unknown): { values: Values } | { wrong: string } {
  if (!isObject(input)) return { wrong: "The form is for an object." };
  const values: Record<string, string> = {};
  const by = new Map(fields.map((f) => [f.name, f]));
  for (const [name, value] of Object.entries(input)) {
    const f = by.get(name);
    if (!f) return { wrong: `The form has no field for ${name}.` };
    if (f.kind === "group") {
      const inner = valuesOf(f.fields, value);
      if ("wrong" in inner) return inner;
      Object.assign(values, inner.values);
      continue;
    }
    const text = textOf(f, value);
    if (text === undefined) return { wrong: `The field for ${name} cannot hold ${JSON.stringify(value)}.` };
    values[f.pointer] = text;
  }
  return { values };
}

/** The field that a fault is about: the one at its place, or the nearest around it; "" if there is none. */
export function placeOf(fields: readonly Field[], pointer: string): string {
  const all = new Set(fields.flatMap((f) => [f.pointer, ...f.fields.map((g) => g.pointer)]));
  for (let p = pointer; p !== ""; p = p.slice(0, p.lastIndexOf("/"))) if (all.has(p)) return p;
  return "";
}
