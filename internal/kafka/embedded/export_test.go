package embedded

import (
	"errors"
	"os"
)

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

// WatchDisk calls seen before each sync of a file, with its name, and with "" before each sync of the file system. It must be called before the
// broker has clients. From then on marks are written by MarkNow only.
func WatchDisk(b *Broker, seen func(file string) error) {
	b.endMarks()
	one, all := b.disk.syncFile, b.disk.syncAll
	b.disk.syncFile = func(f *os.File) error { return errors.Join(seen(f.Name()), one(f)) }
	b.disk.syncAll = func(f *os.File) error { return errors.Join(seen(""), all(f)) }
}
