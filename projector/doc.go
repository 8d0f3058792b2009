// Package projector keeps the state store: one Pebble database for each process, with the folded state of all its
// partitions, the indexes that owners and the API read, and the offset up to which each partition is folded.
//
// The log is the truth, and the store is derived from it. Data in doubt are deleted and folded again. So commits are not
// synced, and Pebble keeps no write-ahead log. After kill -9 or a power cut the unflushed batches are missing, each as a
// whole (at most those of a minute, or of a few memtables). They are folded again from the log. (A write-ahead log cost 8 to 10
// us of CPU per task, out of 40 for the whole store.)
//
//	      Commit (deltas, anchors)             Reset                    Open
//	┌────────────┐ ──────────▶ ┌─────────┐ ──────────▶ ┌───────────┐ ──────────▶ ┌────────────┐
//	│  no rows   │             │  rows,  │             │ resetting │  (also at   │  no rows   │
//	│ (rebuild)  │             │  meta   │             │ (marked)  │  its end)   │ (rebuild)  │
//	└────────────┘             └─────────┘             └───────────┘             └────────────┘
//
// # Keys
//
// Integers are big-endian and fixed in width: u32 for a partition, and i64 with its sign bit flipped, so that it sorts. ~i64
// is its complement, so that the newest or highest comes first. A text that is not at the end of a key ends in 00 01 and has
// 00 FF for each 00 in it, so texts sort like their bytes, and none is a prefix of another. An ID at the end of a key is
// stored unchanged.
//
//	s f                                              format version
//	s n                                              namespace ID
//	s r <u32 partition>                              a Reset that is not finished
//	p <u32> a                                        meta: offset, sum, runs, anchor, counts
//	p <u32> b <text kind> <id>                       part: held request, definition, the partition itself
//	p <u32> t <id>                                   head of a task: uvarint number of its other rows, uvarint length of
//	                                                 the encoding, canonical encoding, Keys in binary
//	p <u32> t <id> 00 <text kind> <part>             its other rows: canonical encoding. part is what follows the task's ID
//	                                                 and a NUL in the ID of the entity, empty for the input and the output
//	p <u32> h <id>                                   history: the offsets of the task's facts, see eachOffset
//	p <u32> r <text input> <i64 offset>              rejected input of the last hour: offset of the fact, instant
//	p <u32> q <text queue> <text operation> <text fair_by> <~i64 priority> <i64 since> <text id> <text path>   the queue
//	p <u32> d <i64 due> <id>                         tasks that the owner must look at, by due time
//	p <u32> u <id>                                   tasks that no owner has planned
//	p <u32> e <i64 ended> <id>                       tasks that ended, but for those of the next kind
//	p <u32> f <i64 forget> <id>                      tasks that ended and whose workflow says when they may be forgotten
//	l a <suffix>                                     all tasks of the process, newest first
//	l s <text state> <suffix>                        the same by state,
//	l w <text workflow> <suffix>                     by workflow,
//	l l <text key> <text value> <suffix>             and by label
//	                                                 suffix = <~i64 submitted> <id> <u32 partition>
//
// All rows but s, a, b, t, h and r have empty values. The q, d, u, e, f and l rows of a task are a function of its Keys, which are
// stored in its row (see keySet.add). So a commit writes the difference of two sets, and CheckIndexes needs nothing else.
// Each of these rows is written once and deleted once, so that Pebble drops both entries when they meet in a compaction (see
// writer.difference).
//
// No task ID has a NUL, so the rows of a task follow its head directly: one scan reads a task, and a brief list reads only heads. The
// number in the head tells most lookups that there is nothing to scan, and all others whether a row is missing.
//
// A task's value is stored as JSON, its canonical encoding. The state hash needs this encoding at each flush anyway, so a
// binary form would be a second encoding for each commit. It would save only a copy of a few hundred bytes, and space that Snappy
// saves too.
//
// # Invariants
//
//   - INV2: the stored rows are a function of the folded records, however these were divided into batches. (Only when the r
//     rows leave depends on the commits: each deletes a bounded number of those that are older than an hour of the log.)
//   - INV3: state, indexes and offset change in one Pebble batch.
//   - An offset never moves back, except by Reset.
//   - A partition has a meta row if and only if something was committed for it since its last Reset.
//   - Each index row belongs to one task row, and each task row has all of its index rows.
//   - A task has as many other rows as its head says. A head with a row missing is damage.
//
// # What it refuses to do
//
// It knows no broker (records come through functions) and decides nothing. It refuses to open a store that another namespace
// or another format wrote, and to read without a limit.
//
// # Stability
//
// Nothing here is stable: this package is a part of the engine, and other programs have no use for it.
package projector
