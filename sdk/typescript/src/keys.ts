// Opens and seals the content of tasks in a namespace that seals: events/FORMAT.md, "Sealed values". The topic of keys is followed, so that an
// erased key opens nothing any more.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { AgentError, Failure, messageOf } from "./errors.js";
import { type Connection, type Cursor, type Fetched, type Log, namespaceOf, Reader } from "./kafka.js";

interface DataKey {
  namespace: string;
  subject: string;
  made: string;
  with: string;
  wrapped: string;
}

const UNREAD_MS = 60_000; // after this time without reading the topic, an erasure may have gone unnoticed
const CATCH_UP_MS = 2_000;
const TAG_BYTES = 16;
const NONCE_BYTES = 12;

const bound = (...parts: string[]) => Buffer.from(parts.join("\0"));
const fingerprint = (line: Buffer) => createHash("sha256").update("sagalog sealing key 1\0").update(line).digest("hex").slice(0, 8);

function decrypt(key: Buffer, data: Buffer, associated: Buffer): Buffer {
  const cipher = createDecipheriv("aes-256-gcm", key, data.subarray(0, NONCE_BYTES)).setAAD(associated);
  cipher.setAuthTag(data.subarray(-TAG_BYTES));
  return Buffer.concat([cipher.update(data.subarray(NONCE_BYTES, -TAG_BYTES)), cipher.final()]);
}

function encrypt(key: Buffer, text: string, associated: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(associated);
  return Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]);
}

/** The keys in the file, one in each line, which may change at any time. */
export function keyLines(file: string): Buffer[] {
  try {
    return readFileSync(file, "utf8").split(/\s+/).filter(Boolean).map((line) => Buffer.from(line, "hex"));
  } catch (error) {
    throw new AgentError(`the key file ${file} cannot be used: ${messageOf(error)}; copy that of the nodes`, { cause: error });
  }
}

/** The text in a sealed value, undefined for any other value. */
export function sealedText(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || !("$sealed" in value) || Object.keys(value).length !== 1) return undefined;
  return typeof value.$sealed === "string" ? value.$sealed : undefined;
}

/** Whether a value contains a sealed one. */
export function hasSealed(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return sealedText(value) !== undefined || Object.values(value).some(hasSealed);
}

const noKey = (message: string) => new Failure("unavailable", message, { code: "no_key", effect: "none" });

export class Keys {
  readonly #file: string;
  readonly #log: Log;
  readonly #reader: Reader;
  readonly #cursor: Cursor = { number: 0, fetchAt: 0 };
  readonly #records = new Map<string, DataKey>();
  readonly #erased = new Map<string, string>();
  readonly #opened = new Map<string, Buffer>();
  #namespace = "";
  #readAt = 0;
  #closed = false;

  constructor(c: Connection, file: string, log: Log) {
    this.#file = file;
    this.#log = log;
    this.#reader = new Reader(c, "agent-keys", `${namespaceOf(c)}.keys`);
  }

  /** Follows the topic until close. */
  async run(): Promise<void> {
    let warned = false;
    while (!this.#closed) {
      const asked = Date.now();
      try {
        const [leader] = await this.#reader.leaders([0]);
        const [found] = await this.#reader.fetch(leader?.[0] ?? -1, [this.#cursor]);
        if (found === undefined) this.#readAt = asked; // that was the end
        else this.#take(found);
        warned = false;
      } catch (error) {
        if (!warned && !this.#closed) this.#log("warn", `the topic of keys cannot be read, trying again: ${messageOf(error)}`);
        warned = true;
        await sleep(500);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#reader.close();
  }

  #take({ records, next }: Fetched<Cursor>): void {
    for (const r of records) {
      try {
        this.#put(r.key, r.value);
      } catch (error) {
        this.#log("warn", `the record at offset ${r.offset} of the topic of keys cannot be read, and is skipped: ${messageOf(error)}`);
      }
    }
    this.#cursor.fetchAt = next;
  }

  #put(key: string, value: string | undefined): void {
    const [kind, id] = key.split("/", 2);
    if (id === undefined || value === undefined) return;
    if (kind === "erased") {
      this.#erased.set(id, (JSON.parse(value) as { erased: string }).erased);
      this.#records.delete(id);
      this.#opened.delete(id);
    } else if (kind === "key" && !this.#erased.has(id)) {
      const record = JSON.parse(value) as DataKey;
      this.#namespace ||= record.namespace;
      if (record.namespace === this.#namespace) this.#records.set(id, record);
    }
  }

  /** Opens all sealed values in a value. Undefined: it was absent. */
  async open(value: unknown): Promise<unknown> {
    const text = sealedText(value);
    if (text !== undefined) return this.#openText(text);
    if (!hasSealed(value)) return value;
    if (Array.isArray(value)) return Promise.all(value.map(async (v) => (await this.open(v)) ?? null));
    const members = Object.entries(value as object).map(async ([k, v]) => [k, (await this.open(v)) ?? null] as const);
    return Object.fromEntries(await Promise.all(members));
  }

  async #openText(text: string): Promise<unknown> {
    const [id = "", , sealed = ""] = text.split(".");
    const key = await this.#dataKey(id);
    const opened = decrypt(key, Buffer.from(sealed, "base64url"), bound("sagalog value 1", this.#namespace, id)).toString();
    return opened === "" ? undefined : JSON.parse(opened);
  }

  /** Seals JSON text for the subject of a sealed value, with the latest key of that subject. */
  async sealLike(like: string, json: string): Promise<{ $sealed: string }> {
    await this.#dataKey(like.split(".", 1)[0] ?? "");
    const subject = this.#records.get(like.split(".", 1)[0] ?? "")?.subject;
    const keys = [...this.#records].filter(([, r]) => r.subject === subject);
    const [id] = keys.reduce((a, b) => (Date.parse(b[1].made) - Date.parse(a[1].made) || (b[0] > a[0] ? 1 : -1)) > 0 ? b : a);
    const sealed = encrypt(await this.#dataKey(id), json, bound("sagalog value 1", this.#namespace, id));
    return { $sealed: `${id}..${sealed.toString("base64url")}` };
  }

  async #dataKey(id: string): Promise<Buffer> {
    await this.#catchUp(id);
    const erased = this.#erased.get(id);
    if (erased !== undefined) throw new Failure("permanent", `the content was erased on ${erased}`, { code: "erased", effect: "none" });
    const record = this.#records.get(id);
    if (record === undefined) throw noKey(`the data key ${id} is not in the topic of keys`);
    const known = this.#opened.get(id);
    if (known !== undefined) return known;
    const line = keyLines(this.#file).find((l) => fingerprint(l) === record.with);
    if (line === undefined) throw noKey(`the key file ${this.#file} has no line ${record.with}: copy it from the nodes`);
    const key = decrypt(line, Buffer.from(record.wrapped, "base64"), bound("sagalog key 1", record.namespace, id, record.subject));
    this.#opened.set(id, key);
    return key;
  }

  /** Waits, if a data key is unknown, until the topic has been read to its end once more. */
  async #catchUp(id: string): Promise<void> {
    const now = Date.now();
    while (!this.#records.has(id) && !this.#erased.has(id) && this.#readAt <= now && Date.now() < now + CATCH_UP_MS) await sleep(20);
    if (Date.now() - this.#readAt > UNREAD_MS) throw noKey("the topic of keys could not be read for a minute, so an erasure may have gone unnoticed");
  }
}
