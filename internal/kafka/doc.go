// Package kafka is the Kafka client of the program. No package outside this folder and its subfolders uses the library
// (franz-go); the others see only events.Record and the types of this package.
//
// # What it offers
//
//	Cluster        says how to reach a cluster, ours or Apache Kafka; reads offsets, single records and ranges
//	Topics         names the topics of a namespace; EnsureTopics creates them
//	OwnerProducer  appends the facts of one epoch to one partition: in order, all or an error, nothing after an error
//	Producer       produces all other records, each to the partition that it names
//	Reader         reads chosen partitions from chosen offsets, without a group
//	Scan shows each record of a topic and retains nothing
//	Group          is a member of a consumer group: agents read work with it, and owners learn which partitions to try for. Confirm
//	               asks whether we still own what was read, Shared returns what another member may have read, Watch returns how
//	               the membership ended
//
// The subpackages are embedded (the broker inside a process), doctor (finds problems of a cluster), batch (reads record batches) and work
// (connects agents).
//
// # Invariants
//
//   - A position never moves by itself. An offset outside the log, a log that diverged, and a batch that is too large are
//     typed errors with coordinates, and the partition is not read until the caller says where to continue.
//   - OwnerProducer never appends after a failed append, so it leaves no hole in the log of an epoch. It does not fence: if
//     two epochs write at once, their offsets are not contiguous (docs/protocol.md, "Contiguous offsets").
//   - The outcome of a record without an answer is unknown, and the error shows that: it is ErrClosed, or the error of a
//     context.
//   - If a broker neither accepts nor refuses connections, one call waits for dialTimeout, and the calls after it do not wait.
//   - Closing does not wait for a broker that does not answer.
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
// It decides nothing about tasks, opens no transactions, and hides no loss. It does not send a refused record again. A
// broker refuses whole batches, so before a caller gives up on a record, it sends the record once more alone (IsPermanent).
package kafka
