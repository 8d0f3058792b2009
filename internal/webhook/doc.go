// Package webhook sends signed messages to a receiver over HTTP, by the convention of Standard Webhooks: the headers webhook-id,
// webhook-timestamp and webhook-signature, and a JSON body with type, timestamp and data.
//
// # Invariants
//
//   - A message is signed with each secret. So while a secret is being replaced, receivers that know the old one or the new one accept it.
//   - No error and no log contains a secret, or more of the URL than its host, since a path or a query may be a credential.
//   - A message goes to the URL that was configured and nowhere else: redirects are not followed.
//   - Only a bounded part of an answer is read and shown in errors.
//
// # What it refuses to do
//
// It retries nothing and stores nothing: the caller decides with Pause when to send a message again. It refuses plain HTTP to other machines
// unless that is allowed, and a URL with a user or password, which would appear in the logs of proxies.
package webhook
