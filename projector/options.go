package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// Options are what Open needs to know. Only Namespace is required.
type Options struct {
	// Namespace is the ID of NamespaceCreated. It is written into a new store and compared with that of an old one.
	Namespace string
	// CacheBytes is the size of the cache of blocks. Zero means 64 MiB: live tasks are in their owner's memory, so it
	// serves listings and the filters; smaller ones make the lookup of each new ID read from the disk.
	CacheBytes int64
	// MemTableBytes is the size of a memtable, of which up to four exist at once. Zero means 32 MiB: a smaller one
	// writes to the disk what is deleted seconds later (queue and due rows of short tasks); a larger one holds memory
	// and makes the replay of its log after a crash longer.
	MemTableBytes uint64
	// FS is where files are. nil means the disk; tests and the simulator use memory.
	FS vfs.FS
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
		o.CacheBytes = 64 << 20
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
		FS:           o.FS,
		CacheSize:    o.CacheBytes,
		MemTableSize: o.MemTableBytes,
		// Two memtables may wait for their flush, so that a burst does not stop at the first.
		MemTableStopWritesThreshold: 4,
		// Files of the top level make reads slower, and stopped writes would stop partitions. The owners' windows bound
		// what comes in, so compactions catch up after a burst.
		L0StopWritesThreshold:      1000,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		// Named and not FormatNewest: an upgrade of the library must not decide what is on disk.
		FormatMajorVersion: pebble.FormatValueSeparation,
		Logger:             pebbleLog{o.Logger},
		EventListener: &pebble.EventListener{
			WriteStallBegin: func(pebble.WriteStallBeginInfo) { m.stalls.Inc() },
			BackgroundError: func(err error) { o.Logger.Error("state store: background work failed", "error", err) },
		},
	}
	for i := range p.Levels {
		// The most frequent lookup is that of an ID that is not there: each new submission asks for its task.
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return p
}

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
