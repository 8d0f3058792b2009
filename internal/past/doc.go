// Package past makes the past of a namespace readable again: a copy of its log as it was at a moment, in a data directory that only readers open.
//
//	Resolve  says where each partition was at a moment
//	Copy     copies the log up to there, and folds it
//	Open     reads what a copy is about
//
// The copy holds the facts, the definitions and the dead letters that were written until then, each at its offset, so that positions, histories and
// hashes are those of the original. It holds the keys of encrypted content as they are now: what was erased since stays erased. It holds no
// inputs and no requests to agents: nothing in it goes on.
//
// It refuses to write into a directory that holds anything else, and a moment before the log's first facts.
package past
