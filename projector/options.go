package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// FS is a file system. It is named here so that who opens a store elsewhere than on the disk need not know Pebble.
type FS = vfs.FS

// Options are what Open needs to know. Only Namespace is required.
type Options struct {
	// Namespace is the ID of NamespaceCreated. It is written into a new store and compared with that of an old one.
	Namespace string
	// CacheBytes is the size of the cache of blocks, of which Pebble takes the memtables' memory. Zero means 128 MiB: with
	// two memtables half of it is left for blocks. Live tasks are in their owner's memory, so it serves listings and the
	// filters; with half as much the lookup of each new ID read filters from the disk, a sixth of all CPU.
	CacheBytes int64
	// MemTableBytes is the size of a memtable, of which up to four exist at once. Zero means 32 MiB: a smaller one
	// writes to the disk what is deleted or written again seconds later (short tasks); a larger one holds memory and has
	// more of the log folded again after a crash. (64 MiB saved a tenth of the CPU and took twice the memory.)
	MemTableBytes uint64
	// FS is where files are. nil means the disk; tests and the simulator use memory.
	FS FS
	// Logger gets what an operator must see; nil discards it.
	Logger *slog.Logger
	// Registerer gets the metrics; nil keeps none.
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	var faults []error
	if o.Namespace == "" {
		faults = append(faults, errors.New("projector: Namespace is required"))
	}
	if o.CacheBytes < 0 {
		faults = append(faults, fmt.Errorf("projector: CacheBytes is %d", o.CacheBytes))
	}
	return errors.Join(faults...)
}

func (o Options) withDefaults() Options {
	if o.CacheBytes == 0 {
		o.CacheBytes = 128 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 32 << 20
	}
	if o.FS == nil {
		// Named, because Pebble's own default is wrapped in a watchdog whose goroutine outlives a failed Open.
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func pebbleOptions(o Options, m *metrics) *pebble.Options {
	p := &pebble.Options{
		FS:           tellingFS{FS: o.FS, log: o.Logger, said: new(atomic.Int64)},
		CacheSize:    o.CacheBytes,
		MemTableSize: o.MemTableBytes,
		// The log of facts is the write-ahead log: what a killed process had not flushed is a tail of the commits, whole
		// batches, and is folded again. A second log would be written for nothing and read for little.
		DisableWAL: true,
		// Two memtables may wait for their flush, so that a burst does not stop at the first.
		MemTableStopWritesThreshold: 4,
		// Files of the top level make reads slower, and stopped writes would stop partitions. The owners' windows bound
		// what comes in, so compactions catch up after a burst.
		L0StopWritesThreshold: 1000,
		// What comes in is sorted into the levels below less often than by Pebble's defaults (4 and 64 MiB): a backlog that
		// builds up spent a sixth of all CPU on it. The filters spare most lookups the additional files.
		L0CompactionThreshold:      10,
		LBaseMaxBytes:              256 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		// Named and not FormatNewest: an upgrade of the library must not decide what is on disk.
		FormatMajorVersion: pebble.FormatValueSeparation,
		Logger:             pebbleLog{o.Logger},
		EventListener: &pebble.EventListener{
			WriteStallBegin: func(pebble.WriteStallBeginInfo) { m.stalls.Inc() },
			PossibleAPIMisuse: func(info pebble.PossibleAPIMisuseInfo) {
				// An index row was written twice and deleted once, or the reverse: see writer.difference.
				o.Logger.Warn(misused, "kind", info.Kind.String())
			},
			BackgroundError: func(err error) {
				if diskFails(err) {
					end(o.Logger, err)
				}
				o.Logger.Error("state store: background work failed", "error", err.Error()) // without its stack
			},
		},
	}
	for i := range p.Levels {
		// Twice Pebble's own: a fifth less on disk. A larger one makes the reading of a single task dearer, which each start
		// out of a backlog does.
		p.Levels[i].BlockSize = 8 << 10
		// The most frequent lookup is that of an ID that is not there: each new submission asks for its task.
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return p
}

const misused = "state store: index rows were not written and deleted in turn: a defect; `state hash --rebuild` tells whether the state is right"

// pebbleLog is Pebble's logger. Pebble tells every flush and compaction, which is for us and not for an operator.
type pebbleLog struct{ log *slog.Logger }

func (l pebbleLog) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("state store: " + fmt.Sprintf(format, args...))
	}
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Error("state store: " + fmt.Sprintf(format, args...))
}

// Fatalf must not return: Pebble calls it where going on would lose or invent rows, such as when its log cannot be
// written. The process ends, as by kill -9, and the next one finds a consistent store or builds it anew.
func (l pebbleLog) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.log.Error("state store: " + text)
	panic("state store: " + text)
}
