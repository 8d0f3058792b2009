// Package sealing encrypts what users put into tasks, so that brokers and disks see only ciphertext, and erases it by deleting keys.
//
//	key file ── wraps ──▶ data key of a subject ── seals ──▶ input, output, error detail, progress, payload
//	(never leaves          (<ns>.keys, wrapped)               (a value of the log: events.Sealed)
//	the machine)
//
// Each subject, such as a customer, has data keys; what belongs to nobody in particular is sealed for the subject "", the namespace. A value
// names the data key that opens it. Deleting the data keys of a subject makes all of its values unreadable, wherever they lie, while facts,
// hashes and histories stay as they are.
//
// # The topic of keys
//
// It is compacted, and its one partition holds two kinds of records:
//
//	key/ID     a data key: subject, when it was made, its bytes wrapped, and the fingerprint of the key that wraps it
//	erased/ID  says when the data key was erased. It is never deleted, so a copy of the key that comes later counts for nothing.
//
// Keys, and the values that they seal, are bound to the ID of the namespace. A copy of the namespace keeps the ID, so it takes the records of this
// topic as they are.
//
// Both ciphers are AES-256-GCM, as Tink writes it without a prefix: 12 bytes of nonce, the ciphertext, 16 bytes of tag.
//
// # Invariants
//
//   - Whoever seals has seen the data key in the topic, so whoever reads a value finds its key there, or the record of its erasure.
//   - No fold, hash or replay opens anything.
//   - No error and no log line holds a key, or what was sealed.
//
// # Limits
//
// Sealing hides contents, not their lengths, and neither names, labels, times nor states. It does not protect against somebody who has the
// key file and could read the topic before the erasure.
package sealing
