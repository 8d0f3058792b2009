// Package access says who may call the HTTP API: it recognizes callers by their tokens, and knows what each role includes.
//
//	TokenFile    the tokens of a file, which holds only their hashes; it is read again when it changes
//	OIDC         tokens (JWT) of an identity provider, whose groups are mapped to roles
//	Peers        signs the requests that nodes pass to each other, with the name and the role of the caller
//	Gate         all of these together: who sent this request?
//	Certificate  the certificate of the API, read again when its files change
//
// # Invariants
//
//   - A token is compared by its SHA-256 hash, in constant time. Neither the file, a log nor an error holds a token.
//   - A file that others may read is refused. A changed file that cannot be used changes nothing: what it held before stays valid, and the
//     log says so once.
//   - A token that is removed from the file, or has expired, is refused within a second.
//   - A request from another node counts only with a signature that names the receiver, the call, its body and the caller, and that
//     is at most signedFor old. It is worth no more than this one call at this one node, and a repeated change has no effect
//     (Idempotency-Key).
//
// # What it refuses to do
//
// It knows no routes: the API has the table of which call needs which role.
package access
