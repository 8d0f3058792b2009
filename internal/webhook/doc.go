// Package webhook sends signed messages to a receiver over HTTP, by the convention of Standard Webhooks: the headers webhook-id,
// webhook-timestamp and webhook-signature, and a JSON body with type, timestamp and data.
//
// # Invariants
//
//   - A message is signed with each secret, so a receiver that knows the old or the new one accepts it while they are exchanged.
//   - No error and no log holds a secret, or more of the URL than its host: a path or a query may be what lets its caller in.
//   - A message goes to the URL that was configured and nowhere else: redirects are not followed.
//   - What the receiver answers is read up to a bound, and shortened in errors.
//
// # What it refuses to do
//
// It repeats nothing, and keeps nothing: its caller decides with Pause when a message is sent again. It refuses plain HTTP to other machines
// unless that is allowed, and a URL with a user or password, which would end up in logs of proxies.
package webhook
