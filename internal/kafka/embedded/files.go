package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/gofrs/flock"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Files reads the logs of a data directory whose broker is stopped, without starting it. It takes the lock, as a broker does, and writes nothing else.
//
// A log is examined before its first record is shown, as a broker examines it: damage is a *DamageError, and what a broker would cut off at its start
// is not shown. Other logs are not read. Memory does not grow with the length of a log, except that each segment is in memory while it is examined.
type Files struct {
	dir    string
	lock   *flock.Flock
	begins []topicBegins
	unpack batch.Unpacker

	// mu guards what is below.
	mu    sync.Mutex
	x     *examination
	known map[partition]*logFiles
}

// logFiles is one log that was examined. begin is the offset of its first record, end that after the last one, and stable, which is not above end, that of
// the first record of an open transaction.
type logFiles struct {
	at                 partition
	begin, end, stable int64
	dir                string
	segments           []segmentScrub
}

// OpenFiles opens the data directory cfg.Dir. It returns a *LockedError if a process uses it.
func OpenFiles(cfg Config) (_ *Files, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	f := &Files{dir: cfg.Dir, known: map[partition]*logFiles{}}
	if f.lock, err = lockFile(cfg.LockFile); err != nil {
		return nil, err
	}
	if f.begins, err = readBegins(cfg.Dir, cfg.Logger); err == nil {
		f.x, err = begin(cfg.Dir, cfg.Logger)
	}
	if err == nil {
		f.unpack, err = kafka.NewUnpacker()
	}
	if err != nil {
		return nil, errors.Join(err, f.lock.Unlock())
	}
	return f, nil
}

// Close releases the lock.
func (f *Files) Close() error { return f.lock.Unlock() }

// Partitions returns the number of partitions of a topic; zero if there is no such topic.
func (f *Files) Partitions(topic string) int32 {
	for _, t := range f.x.topics {
		if t.Name == topic {
			return int32(t.Partitions)
		}
	}
	return 0
}

// Bounds returns the first offset of a partition and its last stable offset. ctx ends the examination of the log.
func (f *Files) Bounds(ctx context.Context, topic string, number int32) (begin, stable int64, err error) {
	l, err := f.log(ctx, topic, number)
	if err != nil {
		return 0, 0, err
	}
	return l.begin, l.stable, nil
}

// log returns a log, which it examines at the first call.
func (f *Files) log(ctx context.Context, topic string, number int32) (*logFiles, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := partition{topic, number}
	if l := f.known[at]; l != nil {
		return l, nil
	}
	i := slices.IndexFunc(f.x.topics, func(t topicEntry) bool { return t.Name == topic && int(number) < t.Partitions })
	if i < 0 || number < 0 {
		return nil, fmt.Errorf("read %s/%d: %w", topic, number, kafka.ErrUnknownTopic)
	}
	s := f.x.scrubOf(f.x.topics[i], int(number))
	defer func() { s.room.b = nil }() // a segment is large
	if err := s.run(ctx, f.x.hasSessions); err != nil {
		return nil, err
	}
	l := &logFiles{at: at, dir: s.dir, segments: s.segments}
	f.known[at] = l
	if len(s.segments) == 0 {
		return l, nil
	}
	l.begin, l.end, l.stable = s.segments[0].base, s.next, s.next
	deleted := int64(0)
	if snap, ok := s.readSnapshot(); ok {
		deleted = snap.LogStartOffset
		if s.transactional && f.x.hasSessions && s.matches(snap) {
			l.stable = min(snap.LastStableOffset, l.end)
		}
	}
	for _, t := range f.begins {
		if t.Name == topic && string(t.ID) == string(f.x.topics[i].ID) && int(number) < len(t.Begins) && t.Begins[number] < l.end {
			deleted = max(deleted, t.Begins[number])
		}
	}
	if deleted <= l.end {
		l.begin = max(l.begin, deleted)
	}
	return l, nil
}

// ReadAt is kafka.Cluster.ReadAt.
func (f *Files) ReadAt(ctx context.Context, topic string, number int32, offset int64) (found events.Record, err error) {
	l, err := f.log(ctx, topic, number)
	if err == nil && offset >= l.end {
		err = fmt.Errorf("read %s/%d at %d: %w", topic, number, offset, &kafka.OutOfRangeError{Topic: topic, Partition: number, Offset: offset})
	}
	if err != nil {
		return found, err
	}
	err = f.ReadRange(ctx, topic, number, offset, offset+1, func(r events.Record) error { found = r; return nil })
	if err == nil && found.Topic == "" {
		err = fmt.Errorf("read %s/%d at %d: %w", topic, number, offset, kafka.ErrNoRecord)
	}
	return found, err
}

// ReadRange is kafka.ReadWhole: the log must reach to. The files show everything to the end of the log, which is above Bounds if a transaction is open.
func (f *Files) ReadRange(ctx context.Context, topic string, number int32, from, to int64, fn func(events.Record) error) error {
	return f.read(ctx, &batch.Decoder{Topic: topic, Partition: number, Next: from, End: to}, fn)
}

// LendRange is kafka.LendWhole.
func (f *Files) LendRange(ctx context.Context, topic string, number int32, from, to int64, fn func(events.Record) error) error {
	return f.read(ctx, &batch.Decoder{Topic: topic, Partition: number, Next: from, End: to, ReuseHeaders: true}, fn)
}

func (f *Files) read(ctx context.Context, d *batch.Decoder, fn func(events.Record) error) error {
	l, err := f.log(ctx, d.Topic, d.Partition)
	if err != nil {
		return err
	}
	if d.Next < l.begin {
		return fmt.Errorf("read %s/%d from %d: %w", d.Topic, d.Partition, d.Next, &kafka.OutOfRangeError{Topic: d.Topic, Partition: d.Partition, Offset: d.Next})
	}
	if d.End > l.end {
		return fmt.Errorf("read %s/%d to %d: the log ends at %d: %w", d.Topic, d.Partition, d.End, l.end, &kafka.OutOfRangeError{Topic: d.Topic, Partition: d.Partition, Offset: l.end})
	}
	d.Unpacker = f.unpack
	d.Show = func(r *events.Record) error { return fn(*r) }
	for i, s := range l.segments {
		if d.Next >= d.End || d.Ended() {
			return nil
		}
		if i+1 < len(l.segments) && l.segments[i+1].base <= d.Next {
			continue
		}
		if err := l.show(ctx, s, d); err != nil {
			return err
		}
	}
	if d.Next < d.End && !d.Ended() {
		return fmt.Errorf("read %s/%d: its files had records up to offset %d, and now end at %d", d.Topic, d.Partition, d.End, d.Next)
	}
	return nil
}

// readBytes is how much of a file is read at once. Records share this memory, so it is not used again.
const readBytes = 512 << 10

// show lets a decoder read a segment.
func (l *logFiles) show(ctx context.Context, s segmentScrub, d *batch.Decoder) error {
	file, err := os.Open((&logScrub{dir: l.dir}).path(segmentName(s.base)))
	if err != nil {
		return fmt.Errorf("read the log of %s/%d: %w", d.Topic, d.Partition, err)
	}
	defer file.Close()
	for at, most := int64(0), int64(readBytes); at < s.size && d.Next < d.End && !d.Ended(); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		raw := make([]byte, min(most, s.size-at))
		if _, err := io.ReadFull(io.NewSectionReader(file, at, s.size-at), raw); err != nil {
			return fmt.Errorf("read %s at byte %d: %w", file.Name(), at, err)
		}
		n, next := batch.Whole(raw)
		if n == 0 {
			if most >= s.size-at {
				return fmt.Errorf("read %s: at byte %d is no whole batch, and there was one before", file.Name(), at)
			}
			most *= 2 // for a batch that is larger
			continue
		}
		if err := decode(d, raw[:n], next); err != nil {
			return kafka.Unreadable(err)
		}
		at, most = at+int64(n), readBytes
	}
	return nil
}

// decode decodes whole batches, which end before offset next. The client takes an unreadable batch for a broker's answer that is cut off, unless it is the
// first one: so an error comes only when the batch is decoded again, from its offset on.
func decode(d *batch.Decoder, raw []byte, next int64) error {
	for from := int64(-1); d.Next < min(next, d.End) && !d.Ended(); {
		if d.Next == from {
			return &batch.Error{Topic: d.Topic, Partition: d.Partition, Offset: from, Err: errors.New("a batch cannot be decoded")}
		}
		from = d.Next
		if err := d.Decode(&kmsg.FetchResponseTopicPartition{RecordBatches: raw}); err != nil {
			return err
		}
	}
	return nil
}
