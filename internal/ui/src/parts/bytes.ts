/** The bytes of a value that is base64. */
export const bytesOf = (base64: string): Uint8Array => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

/** So many bytes are shown at most: what is wrong with them shows early. */
const most = 4096;
const wide = 16;

/** Bytes as people read them: offset, hexadecimal, and the letters among them. */
export function hexdump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let i = 0; i < Math.min(bytes.length, most); i += wide) {
    const row = [...bytes.slice(i, i + wide)];
    const hex = row.map((b) => b.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : ".")).join("");
    lines.push(`${i.toString(16).padStart(8, "0")}  ${hex.padEnd(3 * wide)} ${letters}`);
  }
  if (bytes.length > most) lines.push(`and ${(bytes.length - most).toLocaleString()} more bytes`);
  return lines.join("\n");
}

const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** A number of bytes in the unit that people read: 3.1 GiB. */
export function sized(bytes: number): string {
  let n = bytes;
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}
