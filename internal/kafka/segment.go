package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
)

// The layout of a record batch (magic 2), all numbers big-endian.
const (
	batchLengthAt     = 8
	batchPrefix       = 12 // what Length does not count
	batchEpochAt      = 12
	batchMagicAt      = 16
	batchCRCAt        = 17
	batchChecked      = 21 // the CRC covers what follows; nothing covers what precedes
	batchAttributesAt = 21
	batchLastDeltaAt  = 23
	batchMaxTimeAt    = 35
	batchCountAt      = 57
	batchHeader       = 61

	attributeTransactional = 1 << 4
	attributeControl       = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchView reads the header of a batch; b holds the whole batch.
type batchView struct{ b []byte }

func (v batchView) first() int64     { return int64(binary.BigEndian.Uint64(v.b)) }
func (v batchView) next() int64      { return v.first() + int64(v.lastDelta()) + 1 }
func (v batchView) lastDelta() int32 { return int32(binary.BigEndian.Uint32(v.b[batchLastDeltaAt:])) }
func (v batchView) count() int32     { return int32(binary.BigEndian.Uint32(v.b[batchCountAt:])) }
func (v batchView) epoch() int32     { return int32(binary.BigEndian.Uint32(v.b[batchEpochAt:])) }
func (v batchView) maxTime() int64   { return int64(binary.BigEndian.Uint64(v.b[batchMaxTimeAt:])) }
func (v batchView) size() int        { return len(v.b) }

func (v batchView) attributes() uint16 { return binary.BigEndian.Uint16(v.b[batchAttributesAt:]) }

// openTransaction tells whether the batch is data of a transaction, open or not.
func (v batchView) openTransaction() bool {
	return v.attributes()&attributeTransactional != 0 && v.attributes()&attributeControl == 0
}

// whole returns the batch at the start of raw if all of it is there and its CRC holds, and why not otherwise.
func whole(raw []byte) (batchView, string) {
	if len(raw) < batchHeader {
		return batchView{}, "a batch is cut off"
	}
	n := int64(batchPrefix) + int64(int32(binary.BigEndian.Uint32(raw[batchLengthAt:])))
	if n < batchHeader || n > int64(len(raw)) {
		return batchView{}, fmt.Sprintf("a batch says that it has %d bytes, and %d are there", n, len(raw))
	}
	v := batchView{raw[:n]}
	if raw[batchMagicAt] != 2 {
		return batchView{}, fmt.Sprintf("a batch has format %d instead of 2", raw[batchMagicAt])
	}
	if crc32.Checksum(v.b[batchChecked:], castagnoli) != binary.BigEndian.Uint32(raw[batchCRCAt:]) {
		return batchView{}, "the CRC of a batch is wrong"
	}
	return v, ""
}

// fileRoom is memory for one file after another: a log of a gigabyte would else leave a gigabyte to the collector.
type fileRoom struct{ b []byte }

// read returns the file's bytes, which are good until the next call. Nobody writes to the file meanwhile.
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
		r.b = nil // the collector may have it before the larger one is made
		r.b = make([]byte, size)
	}
	r.b = r.b[:info.Size()]
	if _, err := io.ReadFull(f, r.b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r.b, nil
}

// segment scrubs one file, behind which the later ones follow. It holds the file in memory, as the broker will.
func (l *logScrub) segment(base int64, later []int64) error {
	file := l.path(segmentName(base))
	raw, err := l.room.read(file)
	if err != nil {
		return fmt.Errorf("read the log of %s/%d: %w", l.topic, l.partition, err)
	}
	if l.next >= 0 && base != l.next && !(l.compacted && base > l.next) {
		if l.untold() {
			l.cutUntold(file, 0, 0, append([]int64{base}, later...), "records are missing in front of it")
			return nil
		}
		return l.damage(file, 0, l.next, fmt.Sprintf("records are missing between offset %d and %d", l.next, base))
	}
	l.next = base
	s := segmentScrub{base: base}
	known := l.readIndex(base)
	var index []indexEntry
	for pos := 0; pos < len(raw); {
		v, torn := whole(raw[pos:])
		fault := torn
		if fault == "" {
			fault = l.misplaced(v)
		}
		if n := len(index); fault == "" && n < len(known) && known[n].epoch != v.epoch() {
			fault = fmt.Sprintf("a batch has leader epoch %d, and its index has %d", v.epoch(), known[n].epoch)
		}
		if fault != "" && l.untold() {
			l.cutUntold(file, int64(pos), int64(len(raw)), later, fault)
			break
		}
		if torn != "" {
			if len(later) > 0 || followed(raw[pos+1:], l.next) {
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
		l.pass(&s, v)
		index = append(index, indexEntry{epoch: v.epoch(), transaction: v.openTransaction()})
		pos += v.size()
	}
	if s.size > 0 {
		l.segments = append(l.segments, s)
	}
	l.checkIndex(base, index)
	return nil
}

// misplaced checks what no CRC covers: the offset and the leader epoch; and that the offsets of the batch have no gap.
func (l *logScrub) misplaced(v batchView) string {
	switch {
	case v.first() != l.next && !(l.compacted && v.first() > l.next):
		return fmt.Sprintf("a batch has offset %d where %d was due", v.first(), l.next)
	case v.lastDelta() < 0, v.count() != v.lastDelta()+1 && !l.compacted:
		return fmt.Sprintf("the batch at offset %d says that it has %d records over %d offsets", v.first(), v.count(), v.lastDelta()+1)
	case v.epoch() < l.epoch:
		return fmt.Sprintf("the leader epoch falls from %d to %d at offset %d", l.epoch, v.epoch(), v.first())
	}
	return ""
}

func (l *logScrub) pass(s *segmentScrub, v batchView) {
	if s.size == 0 {
		s.minEpoch = v.epoch()
	}
	s.maxEpoch = v.epoch()
	s.size += int64(v.size())
	l.next, l.epoch = v.next(), v.epoch()
	l.transactional = l.transactional || v.attributes()&attributeTransactional != 0
	l.maxTimestamp = max(l.maxTimestamp, v.maxTime())
}

// followed looks for a whole batch with a later offset anywhere in raw. If there is one, what precedes it is damage in
// the middle of the log and not a torn end, whatever a damaged length field says.
func followed(raw []byte, after int64) bool {
	for i := 0; i+batchHeader <= len(raw); i++ {
		if raw[i+batchMagicAt] != 2 || raw[i] != 0 {
			continue // an offset's first byte is 0 for the next million years
		}
		if int64(binary.BigEndian.Uint64(raw[i:])) < after {
			continue
		}
		if _, fault := whole(raw[i:]); fault == "" {
			return true
		}
	}
	return false
}

// cut removes the torn last batch. Its records were not acknowledged, or a power cut took them: then the broker's user
// chose not to have --fsync, and the anchor and the hashes of passed inputs tell who had seen them. With marks it is below
// the mark of its partition, so the disk had it.
func (l *logScrub) cut(file string, at int64, bytes int, fault string) error {
	if l.marked && !l.compacted {
		return l.damage(file, at, l.next, fault+", and its records were on the disk")
	}
	if snap, ok := l.readSnapshot(); ok && snap.HighWatermark > l.next && snap.LogStartOffset < snap.HighWatermark {
		return l.damage(file, at, l.next, fault+", and its records were there at the last clean stop")
	}
	offset := l.next
	l.mend(func() error {
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
