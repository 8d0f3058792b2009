package kafka

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"time"
)

// indexEntrySize is the size of an entry of an index: version, low byte of the CRC of what follows, leader epoch (4),
// the largest earlier timestamp (8), flags. All little-endian.
const (
	indexEntrySize   = 15
	indexVersion     = 1
	snapshotVersion  = 1
	indexTransaction = 1
)

type indexEntry struct {
	epoch       int32
	transaction bool
}

func (e indexEntry) bytes() []byte {
	b := make([]byte, indexEntrySize)
	b[0] = indexVersion
	binary.LittleEndian.PutUint32(b[2:], uint32(e.epoch))
	if e.transaction {
		b[14] = indexTransaction
	}
	b[1] = byte(crc32.Checksum(b[2:], castagnoli))
	return b
}

// is compares what matters: the broker computes the timestamp again.
func (e indexEntry) is(b []byte) bool {
	return b[0] == indexVersion && b[1] == byte(crc32.Checksum(b[2:indexEntrySize], castagnoli)) &&
		int32(binary.LittleEndian.Uint32(b[2:])) == e.epoch && (b[14]&indexTransaction != 0) == e.transaction
}

// readIndex returns the entries of an index up to the first bad one, and none of an index that is out of step: that is
// mended, not believed.
func (l *logScrub) readIndex(base int64) []indexEntry {
	b, err := os.ReadFile(l.path(indexName(base)))
	if err != nil || len(b)%indexEntrySize != 0 || l.compacted {
		return nil
	}
	var out []indexEntry
	for ; len(b) > 0; b = b[indexEntrySize:] {
		e := indexEntry{epoch: int32(binary.LittleEndian.Uint32(b[2:])), transaction: b[14]&indexTransaction != 0}
		if !e.is(b) {
			break
		}
		out = append(out, e)
	}
	return out
}

// checkIndex has an index written again that does not fit its segment. A write to a full disk leaves half an entry, and
// all that follow are then read shifted; and a crash between segment and index leaves out the last one: in both cases
// the broker would take the data of open transactions for committed.
func (l *logScrub) checkIndex(base int64, want []indexEntry) {
	if l.compacted {
		return // compaction clears the flags, and no reader of ours reads such a topic committed
	}
	file := l.path(indexName(base))
	got, _ := os.ReadFile(file) // a missing one is written
	if len(got) == len(want)*indexEntrySize {
		fits := true
		for i, e := range want {
			fits = fits && e.is(got[i*indexEntrySize:(i+1)*indexEntrySize])
		}
		if fits {
			return
		}
	}
	var b bytes.Buffer
	for _, e := range want {
		b.Write(e.bytes())
	}
	l.mend(func() error {
		if err := replaceFile(file, b.Bytes()); err != nil {
			return fmt.Errorf("mend the index of %s/%d: %w", l.topic, l.partition, err)
		}
		l.log.Info("mended the index of a log", slog.String("topic", l.topic),
			slog.Int("partition", int(l.partition)), slog.String("file", file))
		return nil
	})
}

type partitionSnapshot struct {
	Version          int               `json:"version"`
	HighWatermark    int64             `json:"high_watermark"`
	LastStableOffset int64             `json:"last_stable_offset"`
	LogStartOffset   int64             `json:"log_start_offset"`
	Epoch            int32             `json:"epoch"`
	LeaderNode       int32             `json:"leader_node,omitempty"`
	MaxTimestamp     int64             `json:"max_timestamp"`
	CreatedAt        time.Time         `json:"created_at"`
	AbortedTxns      json.RawMessage   `json:"aborted_txns,omitempty"`
	Segments         []snapshotSegment `json:"segments"`
}

type snapshotSegment struct {
	BaseOffset int64 `json:"base_offset"`
	Size       int64 `json:"size"`
	MinEpoch   int32 `json:"min_epoch,omitempty"`
	MaxEpoch   int32 `json:"max_epoch,omitempty"`
}

func (l *logScrub) readSnapshot() (partitionSnapshot, bool) {
	var s partitionSnapshot
	b, err := os.ReadFile(l.path(snapshotFile))
	if err != nil || json.Unmarshal(b, &s) != nil || s.Version != snapshotVersion {
		return partitionSnapshot{}, false
	}
	return s, true
}

// snapshot compares the log with the last clean stop, and replaces a snapshot that a crash has left behind.
func (l *logScrub) snapshot(hasSessions bool) error {
	old, ok := l.readSnapshot()
	end := max(l.next, 0)
	if ok && l.marked && old.HighWatermark > end && end >= l.mark {
		// It is of a stop that did not end: it tells of records that the disk did not have.
		l.forget = true
		return l.renewSnapshot(old)
	}
	if ok && old.HighWatermark > end && old.LogStartOffset < old.HighWatermark {
		d := l.damage(l.path(snapshotFile), 0, end, fmt.Sprintf(
			"the log ends at offset %d, and at the last clean stop it ended at %d", end, old.HighWatermark))
		d.Remedy = "Nothing was changed. Restore the folder " + l.dir + " from a copy; or, if the loss of these records is " +
			"accepted, remove the file " + d.File + " and rebuild the projection."
		return d
	}
	if ok && len(l.segments) > 0 && l.matches(old) && (old.HighWatermark != end || old.LogStartOffset > end || !l.transactional && old.LastStableOffset != end) {
		d := l.damage(l.path(snapshotFile), 0, end, fmt.Sprintf(
			"the log ends at offset %d, and its snapshot has it from %d to %d, stable to %d", end, old.LogStartOffset, old.HighWatermark, old.LastStableOffset))
		d.Remedy = "Nothing was changed. The log itself is whole: remove the file " + d.File + ", which the broker then makes anew."
		return d
	}
	switch {
	case ok && l.matches(old):
		if old.LastStableOffset < old.HighWatermark && !hasSessions {
			l.mend(func() error { return l.dropStuck(old) })
		}
	case l.transactional, l.compacted, len(l.segments) == 0:
		// The broker replays these in full, because they need more than their offsets.
	default:
		l.mend(func() error { return l.writeSnapshot(old, ok) })
	}
	return nil
}

// renewSnapshot replaces a snapshot that is not to be believed, or removes it where the broker has to replay the log.
func (l *logScrub) renewSnapshot(old partitionSnapshot) error {
	l.mend(func() error {
		if l.transactional || l.compacted || len(l.segments) == 0 {
			if err := os.Remove(l.path(snapshotFile)); err != nil {
				return fmt.Errorf("remove a stale snapshot of %s/%d: %w", l.topic, l.partition, err)
			}
			return nil
		}
		return l.writeSnapshot(old, true)
	})
	return nil
}

func (l *logScrub) matches(s partitionSnapshot) bool {
	if len(s.Segments) != len(l.segments) {
		return false
	}
	for i, seg := range s.Segments {
		if seg.BaseOffset != l.segments[i].base || seg.Size != l.segments[i].size {
			return false
		}
	}
	return true
}

// dropStuck removes a snapshot with an open transaction whose state is gone: the broker removes session_state.json as
// soon as it has read it, so after a clean stop, a start and a crash it would hold the last stable offset back for ever.
func (l *logScrub) dropStuck(s partitionSnapshot) error {
	if err := os.Remove(l.path(snapshotFile)); err != nil {
		return fmt.Errorf("remove a stale snapshot of %s/%d: %w", l.topic, l.partition, err)
	}
	l.log.Warn("aborted the open transactions of a log, as after a crash", slog.String("topic", l.topic),
		slog.Int("partition", int(l.partition)), slog.Int64("offset", s.LastStableOffset))
	return nil
}

func (l *logScrub) writeSnapshot(old partitionSnapshot, hasOld bool) error {
	s := partitionSnapshot{
		Version: snapshotVersion, HighWatermark: l.next, LastStableOffset: l.next, LogStartOffset: l.segments[0].base,
		Epoch: l.epoch, MaxTimestamp: l.maxTimestamp, CreatedAt: time.Now().UTC(),
	}
	if hasOld {
		s.CreatedAt = old.CreatedAt
		// What was deleted before the last clean stop stays deleted.
		if old.LogStartOffset > s.LogStartOffset && old.LogStartOffset <= l.next {
			s.LogStartOffset = old.LogStartOffset
		}
	}
	for _, seg := range l.segments {
		s.Segments = append(s.Segments, snapshotSegment{
			BaseOffset: seg.base, Size: seg.size, MinEpoch: seg.minEpoch, MaxEpoch: seg.maxEpoch,
		})
	}
	b, err := json.Marshal(s)
	if err == nil {
		err = replaceFile(l.path(snapshotFile), b)
	}
	if err != nil {
		return fmt.Errorf("write the snapshot of %s/%d: %w", l.topic, l.partition, err)
	}
	return nil
}

// replaceFile writes a file so that a crash leaves the old one or the new one.
func replaceFile(path string, b []byte) error {
	next := path + ".tmp"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(next, path)
}
