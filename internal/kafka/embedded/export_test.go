package embedded

// CompactNow runs the compaction, as the broker does every ten minutes.
func CompactNow(b *Broker) { b.cluster.Compact() }

// SyncBy replaces the sync of a broker with Fsync, before it has clients. From then on marks are written by MarkNow only.
func SyncBy(b *Broker, sync func() error) {
	b.endMarks()
	b.commits.sync = func(written) error { return sync() }
}

// MarkNow writes the marks.
func MarkNow(b *Broker) error { return b.mark(nil) }

// MaxConnections is how many connections the broker accepts at a time.
const MaxConnections = maxConnections

// MarksFile is the name of the file that holds the marks.
const MarksFile = marksFile

// DataDir is where the broker keeps its logs.
func DataDir(b *Broker) string { return b.cfg.Dir }

// Stored is the end of a partition in kfake's memory, which is updated without waiting for the disk.
func Stored(b *Broker, topic string, partition int32) int64 {
	return b.cluster.PartitionInfo(topic, partition).HighWatermark
}

// BeginsFile is the name of the file that holds where partitions begin.
const BeginsFile = beginsFile
