import { computed, signal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { components } from "./api/schema";
import { shown } from "./shown";

type Whoami = components["schemas"]["WhoamiDocument"];
export type Role = Whoami["role"];

const roles: readonly Role[] = ["viewer", "submitter", "operator", "admin"];
const kept = "token";

/** The token that the person gave: for this tab only, until it is closed. */
export const token = signal(sessionStorage.getItem(kept) ?? "");

/** Whether a text can be a token: no header can carry other characters. */
const sendable = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);

/** Why the engine wants a token, or another one; null while it is content. */
export const wanted = signal<string | null>(null);

/** Who the engine takes the person for. */
export const me = signal<Whoami | undefined>(undefined);

export function signIn(text: string): void {
  token.value = text;
  wanted.value = null;
  sessionStorage.setItem(kept, text);
}

export function signOut(): void {
  token.value = "";
  me.value = undefined;
  wanted.value = "You have signed out.";
  sessionStorage.removeItem(kept);
}

const rank = computed(() => (me.value ? roles.indexOf(me.value.role) : roles.length));

/** Why the person may not do what needs a role; null if nothing speaks against it. The engine decides. */
export function lacking(role: Role): string | null {
  if (shown.value !== null && role !== "viewer") return "This is a copy of the past: it can only be read.";
  return rank.value >= roles.indexOf(role) ? null : `This needs the role ${role}, and you have the role ${me.value?.role ?? "viewer"}.`;
}

/** The attributes of a button for what needs a role. */
export function needs(role: Role): { "aria-disabled"?: boolean; title?: string } {
  const no = lacking(role);
  return no === null ? {} : { "aria-disabled": true, title: no };
}

/**
 * Asks for another token while the page is open. The page stays in the document but is hidden: nothing typed is lost, and nothing is shown
 * without a valid token.
 */
export function SignInAgain(): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) setTimeout(() => before.focus());
    };
  }, []);
  return (
    <dialog ref={box} aria-label="Sign in" onClose={() => wanted.value !== null && box.current?.showModal()} onCancel={(e) => e.preventDefault()}>
      <SignIn />
    </dialog>
  );
}

/** Asks for a token. */
export function SignIn(): JSX.Element {
  const [text, set] = useState("");
  const submit = (e: Event) => {
    e.preventDefault();
    const given = text.trim();
    if (given !== "" && !sendable(given)) wanted.value = "This is not a token: it has a character that a token cannot have, such as a curly quote. Copy it again.";
    else if (given !== "") signIn(given);
  };
  return (
    <main id="main" class="signin">
      <h1>Sign in</h1>
      <p role="status">{wanted.value}</p>
      <form onSubmit={submit}>
        <label>
          Token
          <input type="password" autocomplete="off" spellcheck={false} value={text} onInput={(e) => set(e.currentTarget.value)} autofocus />
        </label>
        <div class="buttons">
          <button type="submit" class="main">
            sign in
          </button>
        </div>
      </form>
      <p class="faint">This tab keeps it until it is closed, and sends it only to this engine.</p>
    </main>
  );
}

/** Who is signed in. */
export function Me(): JSX.Element | null {
  const who = me.value;
  if (!who || who.access === "off") return null;
  return (
    <span class="me">
      {who.name} <span class="faint">({who.role})</span>{" "}
      <button type="button" class="link" onClick={signOut}>
        sign out
      </button>
    </span>
  );
}
