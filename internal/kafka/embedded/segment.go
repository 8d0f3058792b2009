package embedded

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/sagalog/sagalog/internal/kafka/batch"
)

// fileRoom is memory that is reused for one file after another. Otherwise a log of a gigabyte would leave a gigabyte of garbage.
type fileRoom struct{ b []byte }

// read returns the bytes of a file, valid until the next call. Nobody may write to the file meanwhile.
func (r *fileRoom) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size := info.Size(); size > int64(cap(r.b)) {
		r.b = nil // it may be freed before the larger one is allocated
		r.b = make([]byte, size)
	}
	r.b = r.b[:info.Size()]
	if _, err := io.ReadFull(f, r.b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r.b, nil
}

// segment scrubs one file. later holds the files that follow it. segment holds the file in memory, as kfake will.
func (l *logScrub) segment(base int64, later []int64) error {
	file := l.path(segmentName(base))
	raw, err := l.room.read(file)
	if err != nil {
		return fmt.Errorf("read the log of %s/%d: %w", l.topic, l.partition, err)
	}
	if l.next >= 0 && base != l.next && !(l.compacted && base > l.next) {
		if l.unacknowledged() {
			l.cutUnacknowledged(file, 0, 0, append([]int64{base}, later...), "records are missing in front of it")
			return nil
		}
		return l.damage(file, 0, l.next, fmt.Sprintf("records are missing between offset %d and %d", l.next, base))
	}
	l.next = base
	s := segmentScrub{base: base}
	known := l.readIndex(base)
	var index []indexEntry
	for pos := 0; pos < len(raw); {
		b, err := batch.Parse(raw[pos:])
		torn := err != nil
		var fault string
		if torn {
			fault = err.Error()
		} else {
			fault = l.misplaced(b)
		}
		if n := len(index); fault == "" && n < len(known) && known[n].epoch != b.LeaderEpoch() {
			fault = fmt.Sprintf("a batch has leader epoch %d, and its index has %d", b.LeaderEpoch(), known[n].epoch)
		}
		if fault != "" && l.unacknowledged() {
			l.cutUnacknowledged(file, int64(pos), int64(len(raw)), later, fault)
			break
		}
		if torn {
			if len(later) > 0 || batch.WholeBatchFollows(raw[pos+1:], l.next) {
				return l.damage(file, int64(pos), l.next, fault+", and others follow it")
			}
			if err := l.cut(file, int64(pos), len(raw)-pos, fault); err != nil {
				return err
			}
			break
		}
		if fault != "" {
			return l.damage(file, int64(pos), l.next, fault)
		}
		l.pass(&s, b)
		index = append(index, indexEntry{epoch: b.LeaderEpoch(), transaction: b.Transactional() && !b.Control()})
		pos += b.Size()
	}
	if s.size > 0 {
		l.segments = append(l.segments, s)
	}
	l.checkIndex(base, index)
	return nil
}

// misplaced checks the fields that no CRC covers (the offset and the leader epoch), and that the offsets have no gap.
func (l *logScrub) misplaced(b batch.Batch) string {
	switch {
	case b.First() != l.next && !(l.compacted && b.First() > l.next):
		return fmt.Sprintf("a batch has offset %d instead of %d", b.First(), l.next)
	case b.LastDelta() < 0, b.Count() != b.LastDelta()+1 && !l.compacted:
		return fmt.Sprintf("the batch at offset %d claims to have %d records over %d offsets", b.First(), b.Count(), b.LastDelta()+1)
	case b.LeaderEpoch() < l.epoch:
		return fmt.Sprintf("the leader epoch falls from %d to %d at offset %d", l.epoch, b.LeaderEpoch(), b.First())
	}
	return ""
}

func (l *logScrub) pass(s *segmentScrub, b batch.Batch) {
	if s.size == 0 {
		s.minEpoch = b.LeaderEpoch()
	}
	s.maxEpoch = b.LeaderEpoch()
	s.size += int64(b.Size())
	l.next, l.epoch = b.Next(), b.LeaderEpoch()
	l.transactional = l.transactional || b.Transactional()
	l.maxTimestamp = max(l.maxTimestamp, b.MaxTime())
}

// cut removes the torn last batch. Either it was not acknowledged, or a broker without --fsync lost it in a power cut. In the second case the
// anchors and the hashes of passed inputs reveal the loss. But if the batch is below a mark of its partition, it was on the disk, so this is
// damage.
func (l *logScrub) cut(file string, at int64, bytes int, fault string) error {
	if l.marked && !l.compacted {
		return l.damage(file, at, l.next, fault+", and its records were on the disk")
	}
	if snap, ok := l.readSnapshot(); ok && snap.HighWatermark > l.next && snap.LogStartOffset < snap.HighWatermark {
		return l.damage(file, at, l.next, fault+", and its records existed at the last clean stop")
	}
	offset := l.next
	l.repair(func() error {
		l.log.Warn("cut the torn last batch of a log", slog.String("topic", l.topic),
			slog.Int("partition", int(l.partition)), slog.Int64("offset", offset), slog.Int("bytes", bytes),
			slog.String("file", file), slog.String("fault", fault))
		if err := os.Truncate(file, at); err != nil {
			return fmt.Errorf("cut the torn last batch of %s/%d: %w", l.topic, l.partition, err)
		}
		return nil
	})
	return nil
}
