package embedded

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// indexEntrySize is the size of an index entry: version, low byte of the CRC of the rest, leader epoch (4), the largest earlier timestamp
// (8), flags. All numbers are little-endian.
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

// is compares everything except the timestamp, which kfake recomputes.
func (e indexEntry) is(b []byte) bool {
	return b[0] == indexVersion && b[1] == byte(crc32.Checksum(b[2:indexEntrySize], castagnoli)) &&
		int32(binary.LittleEndian.Uint32(b[2:])) == e.epoch && (b[14]&indexTransaction != 0) == e.transaction
}

// readIndex returns the entries of an index up to the first bad one, and none if the index is out of step. Such an index is repaired and
// not trusted.
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

// checkIndex rewrites an index that does not fit its segment. After a write to a full disk there is half an entry, and all later ones
// are read at shifted positions. After a crash between the writes of segment and index the last entry is missing. In both cases kfake
// would treat the data of open transactions as committed.
func (l *logScrub) checkIndex(base int64, want []indexEntry) {
	if l.compacted {
		return // compaction clears the flags, and we do not read compacted topics with read_committed
	}
	file := l.path(indexName(base))
	got, _ := os.ReadFile(file) // a missing index is written
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
	l.repair(func() error {
		if err := replaceFile(file, b.Bytes()); err != nil {
			return fmt.Errorf("repair the index of %s/%d: %w", l.topic, l.partition, err)
		}
		l.log.Info("repaired the index of a log", slog.String("topic", l.topic),
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

// snapshot compares the log with the last clean stop, and replaces a snapshot that a crash has made stale.
func (l *logScrub) snapshot(hasSessions bool) error {
	old, ok := l.readSnapshot()
	end := max(l.next, 0)
	if ok && l.marked && old.HighWatermark > end && end >= l.mark {
		// The snapshot is from a stop that did not finish, and lists records that were not on the disk.
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
		d.Remedy = "Nothing was changed. The log itself is whole: remove the file " + d.File + ", which the broker then creates again."
		return d
	}
	switch {
	case ok && l.matches(old):
		if old.LastStableOffset < old.HighWatermark && !hasSessions {
			l.repair(func() error { return l.dropStuck(old) })
		}
	case l.transactional, l.compacted, len(l.segments) == 0:
		// kfake replays these in full, because it needs more than their offsets.
	default:
		l.repair(func() error { return l.writeSnapshot(old, ok) })
	}
	return nil
}

// renewSnapshot replaces a snapshot that cannot be trusted, or removes it if kfake has to replay the log.
func (l *logScrub) renewSnapshot(old partitionSnapshot) error {
	l.repair(func() error {
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

// dropStuck removes a snapshot with an open transaction whose state is gone. kfake removes session_state.json as soon as it has read it, so
// after a clean stop, a start and a crash the snapshot would hold the last stable offset back forever.
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
		// Records trimmed before the last clean stop stay trimmed.
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

// removeFile removes a file, if it is there.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replaceFile writes a file such that a crash leaves either the old or the new one.
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
