// Package projector keeps the state store: one Pebble database of a process, with the folded state of all its
// partitions, the indexes that owners and the API read, and the offset that it all belongs to.
//
// The log is the truth and this is a copy of it. Whatever is in doubt is deleted and folded again; so commits are not
// synced, and Pebble keeps no write-ahead log: kill -9 or a power cut loses what was not flushed, at most a minute or some
// memtables, whole batches and from the end, and the log refills them. (A write-ahead log cost 8 to 10 us a task of 40.)
//
//	      Commit (deltas, anchors)             Reset                    Open
//	┌────────────┐ ──────────▶ ┌─────────┐ ──────────▶ ┌───────────┐ ──────────▶ ┌────────────┐
//	│  no rows   │             │  rows,  │             │ resetting │  (also at   │  no rows   │
//	│ (rebuild)  │ ◀────────── │  meta   │             │ (marked)  │  its end)   │ (rebuild)  │
//	└────────────┘  ResetAll   └─────────┘             └───────────┘             └────────────┘
//
// # Keys
//
// Integers are big-endian and fixed in width: u32 for a partition, and i64 with its sign bit flipped, so that it sorts.
// ~i64 is its complement: newest or highest first. A text that something follows ends in 00 01 and has 00 FF for each
// 00 in it; so texts sort as their bytes do, and none is a prefix of another. An ID at the end of a key is as it is.
//
//	s f                                              format version
//	s n                                              namespace ID
//	s r <u32 partition>                              a Reset that is not finished
//	p <u32> a                                        meta: offset, sum, runs, anchor, counts
//	p <u32> b <text kind> <id>                       part: held request, definition, the partition itself
//	p <u32> t <id>                                   task: uvarint length, canonical encoding, Keys in binary
//	p <u32> h <id>                                   history: the offsets of the task's facts, see eachOffset
//	p <u32> q <text agent> <~i64 priority> <i64 since> <text id> <text path> <text operation>   the queue
//	p <u32> d <i64 due> <id>                         tasks that the owner must look at, by when
//	p <u32> u <id>                                   tasks that no owner has planned
//	p <u32> e <i64 ended> <id>                       tasks that ended
//	l a <suffix>                                     all tasks of the process, newest first
//	l s <text state> <suffix>                        the same by state,
//	l w <text workflow> <suffix>                     by workflow,
//	l l <text key> <text value> <suffix>             and by label
//	                                                 suffix = <~i64 submitted> <id> <u32 partition>
//
// All rows but s, a, b, t and h have empty values. The q, d, u, e and l rows of a task are a function of its Keys, which
// stand in its row (see keySet.add): so a commit writes the difference of two sets, and CheckIndexes needs no more. They
// are written once and deleted once, so that the pair vanishes where it meets (see writer.difference).
//
// A task's value stays JSON, its canonical encoding: the state hash needs that at each flush anyway, so a binary form
// would be a second encoding for each commit, and would save a copy of some hundred bytes and what Snappy saves too.
//
// # Invariants
//
//   - INV2: what is stored is a function of the folded records, whatever the batches were.
//   - INV3: state, indexes and offset change in one Pebble batch.
//   - An offset never moves back, but by Reset.
//   - A partition's meta row exists if and only if something of it was committed since its last Reset.
//   - For each index row there is one task row that asks for it, and the reverse.
//
// # What it refuses
//
// To know a broker (records come through functions), to decide anything, to be the truth, to open what another
// namespace or another format wrote, and to read without a limit.
package projector
