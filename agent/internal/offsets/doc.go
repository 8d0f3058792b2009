// Package offsets tracks which work requests of each partition were read and which are finished, and computes the
// position that may be committed: the low-water mark, and with it, as metadata, the runs of finished requests above it.
//
//	        Begin            Finish, or FinishDurably
//	unread -------> open -----------------------------> finished ----> committed
//	                  ^                                   |
//	                  +-----------------------------------+
//	                   SettleDurable: the commit did not cover it
//
// # Invariants
//
//   - A position never passes a request that is unfinished and whose complete-by time is still to come. (One whose time has
//     passed would be dropped if it were read again. Waiting for a function that ignores its context would only make all later
//     requests run twice after a restart.)
//   - A request that was finished durably and that a commit covered is covered by each later commit.
//
// # What it refuses to do
//
// It commits nothing, and does not look into requests: it sees only their offsets and complete-by times.
package offsets
