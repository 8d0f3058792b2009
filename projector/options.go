package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// FS is a file system. The alias lets callers open a store in memory without importing Pebble.
type FS = vfs.FS

// Options configure Open. Only Namespace is required.
type Options struct {
	// Namespace is the ID in NamespaceCreated. It is written into a new store and compared with that of an existing one.
	Namespace string
	// CacheBytes is the size of the block cache, which also pays for the memtables. Zero means 128 MiB: with two memtables
	// half of it is left for blocks. Live tasks are in their owner's memory, so the cache serves listings and filters; with
	// half the size, looking up each new ID read filters from the disk, which took a sixth of all CPU.
	CacheBytes int64
	// MemTableBytes is the size of a memtable; up to four exist at once. Zero means 32 MiB. A smaller one writes rows of short
	// tasks to the disk that are deleted or overwritten seconds later; a larger one takes memory, and more of the log must be
	// folded again after a crash. (64 MiB saved a tenth of the CPU but took twice the memory.)
	MemTableBytes uint64
	// FS holds the files. nil means the disk; tests and the simulator use memory.
	FS FS
	// ExitCode is that of the process if the store cannot go on, for example because its disk is full. Zero means 1.
	ExitCode int
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Registerer receives the metrics; nil means no metrics.
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
	o.CacheBytes = cmp.Or(o.CacheBytes, 128<<20)
	o.ExitCode = cmp.Or(o.ExitCode, 1)
	o.MemTableBytes = cmp.Or(o.MemTableBytes, 32<<20)
	if o.FS == nil {
		// Set explicitly, because Pebble wraps its default in a watchdog whose goroutine outlives a failed Open.
		o.FS = vfs.Default
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

func pebbleOptions(o Options, m *metrics, e *ending) *pebble.Options {
	p := &pebble.Options{
		FS:           reportingFS{FS: o.FS, log: o.Logger, said: new(atomic.Int64)},
		CacheSize:    o.CacheBytes,
		MemTableSize: o.MemTableBytes,
		// The log of facts is the write-ahead log: a killed process loses a tail of its commits, in whole batches, and folds
		// them again. A second log would cost writes and save little.
		DisableWAL: true,
		// Two memtables may wait for their flush, so that a burst does not stop at the first.
		MemTableStopWritesThreshold: 4,
		// Many files in the top level make reads slower, but stopping writes would stop partitions. The owners' windows bound
		// the input, so compactions catch up after a burst.
		L0StopWritesThreshold: 1000,
		// Compact less often than Pebble's defaults (4 and 64 MiB): while a backlog built up, a sixth of all CPU went into
		// compactions. The filters keep most lookups out of the additional files.
		L0CompactionThreshold:      10,
		LBaseMaxBytes:              256 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		// Not FormatNewest: an upgrade of the library must not change the format on disk.
		FormatMajorVersion: pebble.FormatValueSeparation,
		Logger:             pebbleLog{o.Logger, e},
		EventListener: &pebble.EventListener{
			WriteStallBegin: func(pebble.WriteStallBeginInfo) { m.stalls.Inc() },
			PossibleAPIMisuse: func(info pebble.PossibleAPIMisuseInfo) {
				// An index row was written twice and deleted once, or the other way round: see writer.difference.
				o.Logger.Warn(misused, "kind", info.Kind.String())
			},
			BackgroundError: func(err error) {
				if diskFails(err) || errors.Is(err, fs.ErrNotExist) { // somebody removed the directory; Pebble would try again without end
					e.end(err.Error(), againRemedy)
				}
				o.Logger.Error("state store: background work failed", "error", err.Error()) // without the stack trace
			},
		},
	}
	for i := range p.Levels {
		// Twice Pebble's default: a fifth less on disk. Larger blocks make reading a single task more expensive, and each start
		// from a backlog reads a task.
		p.Levels[i].BlockSize = 8 << 10
		// The most frequent lookup is for an ID that does not exist: each new submission looks for its task.
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return p
}

const misused = "state store: index rows were not written and deleted alternately, which is a defect; check the state with `state hash --rebuild`"

// pebbleLog is Pebble's logger. Pebble reports every flush and compaction, which interests developers, not operators.
type pebbleLog struct {
	log *slog.Logger
	end *ending
}

func (l pebbleLog) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("state store: " + fmt.Sprintf(format, args...))
	}
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Error("state store: " + fmt.Sprintf(format, args...))
}

// Fatalf must not return: Pebble calls it when continuing would lose or invent rows, for example when its log cannot be
// written. The process ends as if by kill -9, and the next one finds a consistent store or rebuilds it.
func (l pebbleLog) Fatalf(format string, args ...any) { l.end.fatal(fmt.Sprintf(format, args...)) }
