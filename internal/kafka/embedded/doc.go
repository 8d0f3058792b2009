// Package embedded is a broker inside the process: kfake, plus the safeguards that kfake lacks.
//
//	Open          takes the lock of a data directory, checks its logs and starts the broker
//	Broker        the running broker; Close stops it within a bound
//	OpenFiles     takes the lock of a data directory, and reads its logs without a broker
//	Lock          the lock of a data directory, for other users of it
//	KeepSessions  keeps group sessions as Broker does, for another kfake cluster
//
// # Invariants
//
//   - One process uses a data directory at a time.
//   - The broker starts only on logs that were found intact. A torn last batch is cut off, with a warning. So is everything
//     after a hole, if the hole is above the mark that a broker with Fsync left (marks.go), since none of it was ever
//     acknowledged. With any other damage the broker refuses to start, names topic, partition, file, byte and remedy, and
//     changes nothing.
//   - With Fsync a record is on the disk before its producer or any reader learns of it.
//   - A deleted record stays deleted after a crash, unless the file that says so is damaged; then there is a warning.
//   - Closing waits for a bounded time.
//
// # What it refuses to do
//
// It does not repair damage to acknowledged records. It does not listen beyond loopback without a user and password.
//
// # Gaps in kfake, and the code here that closes them
//
//   - Two processes may open one directory: lock.go.
//   - It ends the process at a request with an unknown key, and allocates whatever length a client claims: guarded_conn.go ends the
//     connection instead, and bounds the number of connections.
//   - With fsync it syncs two files for each batch, one batch after another, and ignores disk errors. Instead,
//     group_commit.go syncs the files of all batches at once (written.go, sync_linux.go), and durable_conn.go holds answers back until then.
//   - It cuts a log at the first damaged byte and trusts bytes that no CRC covers: scrub.go, segment.go.
//   - It trusts every byte of its small files, including the ends of logs: checksums.go. If a full disk cuts an entry in its
//     log of groups short, all later entries are hidden: state_log.go.
//   - Without a snapshot (after a crash) it holds the whole log in memory while it starts: snapshot.go writes a snapshot.
//   - After a crash a partition begins at its first segment, with records that were deleted: begins.go deletes them again.
//   - If an index does not fit its log, open transactions look committed. If a snapshot taken during an open transaction is
//     loaded twice, the last stable offset never advances again: snapshot.go.
//   - After a restart it compacts only when a topic is created: broker.go does so every ten minutes.
//   - An emptied partition begins at 0 after a restart: trimming keeps the last record, and topics here have no retention.
//   - A group member that dies while it joins keeps its share forever: group_sessions.go begins the member's session.
//   - It forgets the sequence numbers of producers in a crash, so it stores a resend twice, and it may acknowledge the retry
//     of a failed append without storing it: facts carry (epoch, sequence), and an epoch ends at any produce error
//     (docs/protocol.md, "Contiguous offsets").
package embedded
