// Package callback makes and checks the tickets of callbacks. An HTTP agent whose service may answer "accepted" sends a URL with its
// call; the service reports the outcome there when it is done (POST /v1/reports/{ticket}). The ticket in the URL is the right to report
// this one attempt, and holds all that the report needs, so nobody stores anything.
//
// # Invariants
//
//   - Nobody without the secret can make or change a ticket: it is authenticated by HMAC-SHA256, compared in constant time.
//     The idempotency key of the attempt is authenticated too. It is built from the ID of the namespace, so a ticket of another namespace is refused
//     even if both use one secret. A copy of a namespace keeps the ID, so it takes the tickets that were made before the copy.
//   - A ticket is worth no more than its attempt: a report of an attempt that is not running changes nothing. So it does not expire.
//   - No error holds a secret or a ticket.
//
// # What it refuses to do
//
// It encrypts nothing: who has a ticket can read the names of the task and of the step, which the service gets in headers anyway.
package callback
