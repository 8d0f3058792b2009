// Package kafka is the one place that knows a Kafka client (franz-go's kgo and kadm) and the embedded broker (kfake).
// The rest sees events.Record and the types here.
//
// # What it offers
//
//	Broker         the embedded broker, with the guards that kfake lacks: a lock, a scrub, a bounded stop
//	Cluster        how to reach a cluster, ours or Apache Kafka; offsets, single records and ranges
//	Topics         the names of a namespace's topics; EnsureTopics makes them, Audit refuses what would lose facts
//	Diagnose       looks at all that a process needs of a cluster; Preflight refuses a start with what to change
//	OwnerProducer  appends of one epoch to one partition: in order, all or an error, nothing after an error
//	Producer       everything else that is produced, each record to a partition that it names
//	Reader         chosen partitions from chosen offsets, without a group
//	Scan           shows each record of a topic without keeping anything of it: for whoever only looks
//	Group          a member of a consumer group: agents read work with it, owners learn who should try. Confirm asks whether
//	               what was read is still ours, Shared tells what another may have read, Watch how the membership ended
//	TrimBefore     deletes what is behind the resume point
//
// # Invariants
//
//   - A position never moves by itself: an offset outside the log, a log that diverged, and a batch that is too large are
//     errors with a type and coordinates, and the partition stands still until the caller says where to go on.
//   - OwnerProducer never appends behind a failed append, so the log of an epoch has no hole of our making. It does not
//     fence: that two epochs write at once is told by their offsets, which are then not contiguous (DESIGN 4).
//   - The outcome of a record without an answer is unknown, and is called that: ErrClosed, or the end of a context.
//   - Nothing here waits for a broker that is gone when it is closed.
//   - With Fsync, nobody is told of a record, neither who wrote it nor who reads it, before the disk has it.
//   - The embedded broker starts only on logs that were found whole. A torn last batch is cut, with a warning, and so is
//     all at and behind a hole above the mark that a broker with Fsync left (durable.go): nobody was told of it. Every
//     other damage is refused with topic, partition, file, byte and remedy, and nothing is changed.
//
// # A partition in a Reader
//
//	          Add                 Poll
//	(none) ---------> added ---------------> read <------ Resume
//	  ^                                     |  |  ------> Pause
//	  |        error in Fetch.Err, Remove   |  |
//	  +-------------------------------------+  +--> Add moves it
//
// # What it refuses to do
//
// It decides nothing about tasks, opens no transactions, and hides no loss. It does not send a refused record again,
// although a broker refuses whole batches: whoever gives up on a record sends it once more alone before (IsPermanent).
//
// # What kfake does not do, and who does it here
//
//   - Two processes may open one directory: lock.go.
//   - With fsync it syncs two files for each batch, one batch after another, and believes a disk that fails: commits.go
//     has its answers wait for one sync of all instead.
//   - It cuts a log at the first damaged byte and believes what no CRC covers: scrub.go, segment.go.
//   - It believes each digit of its small files, also where a log ends: sums.go. What a full disk cut short in its log of
//     groups hides all that follows: statelog.go.
//   - Without a snapshot (after a crash) it holds the whole log in memory while it starts, and forgets what was trimmed:
//     snapshot.go writes one.
//   - An index that is out of step makes open transactions look committed; a snapshot taken with an open transaction and
//     loaded twice holds the last stable offset back for ever: snapshot.go.
//   - After a restart it compacts only if a topic is created: broker.go ticks.
//   - An emptied partition begins again at 0 after a restart: TrimBefore keeps the last record.
//   - A member of a group that dies while it joins keeps its share for ever: sessions.go begins its session.
//   - It forgets producer sequences in a crash, so that a resend is stored twice; and a failed append may be
//     acknowledged when it is retried: (epoch, sequence), and the end of an epoch at any produce error (DESIGN 1).
package kafka
