import type { JSX } from "preact";
import type { CallError } from "../api/client";

/** Says why a call was refused, with the places that the server names. */
export function Fault({ of }: { of: CallError | undefined }): JSX.Element | null {
  if (!of) return null;
  return (
    <div class="fault" role="alert">
      <strong>{of.message}</strong>
      {(of.body.errors?.length ?? 0) > 0 && (
        <ul>
          {of.body.errors?.map((e) => (
            <li key={`${e.parameter ?? e.pointer ?? ""} ${e.message ?? ""}`}>
              {e.parameter ?? e.pointer} {e.message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
