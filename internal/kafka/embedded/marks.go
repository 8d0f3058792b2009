package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"time"
)

// With one sync for each batch, a power cut can tear only the last batch. With the group commit (group_commit.go) several batches of a
// partition wait in the page cache together, and a power cut may keep a later one and lose an earlier one. A sync covers everything
// that was written before it, so nothing from such a hole on was acknowledged. But the logs alone do not show whether a hole comes
// from a power cut or from damage. So a broker with Fsync regularly writes down up to which offset each partition is certainly on the
// disk, its mark. The scrub cuts a hole at or above the mark, and refuses one below.
//
// Invariant: a mark is never above the data on the disk. It may be below: records that were acknowledged after the mark was
// written cannot be distinguished from records that were not, as with a torn last batch.
//
// A clean stop removes the marks. So does a start without Fsync, before anything is written, because records are then acknowledged from the
// page cache.
const (
	marksFile = "durable.json"
	// marksEvery bounds how old a mark is. Writing a small file each second costs next to nothing.
	marksEvery = time.Second
)

// topicMarks are the marks of a topic's partitions. The ID distinguishes a topic that was deleted and created again.
type topicMarks struct {
	Name string  `json:"name"`
	ID   []byte  `json:"id"`
	Ends []int64 `json:"ends"`
}

// marks holds the marks of the last run. If it is nil, nothing is known about the content of the disk.
type marks []topicMarks

// of returns the mark of a partition, or 0 for one that is not listed because it was created later.
func (m marks) of(t topicEntry, partition int) int64 {
	for _, known := range m {
		if known.Name == t.Name && bytes.Equal(known.ID, t.ID) && partition < len(known.Ends) {
			return known.Ends[partition]
		}
	}
	return 0
}

// readMarks ignores a damaged file: with one wrong digit the scrub would cut acknowledged records.
func readMarks(dir string, log *slog.Logger) (marks, error) {
	path := filepath.Join(dir, marksFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the marks of the data on the disk: %w", err)
	}
	sum, body, _ := bytes.Cut(b, []byte("\n"))
	m := marks{}
	if string(sum) != checksumText(body) || json.Unmarshal(body, &m) != nil {
		log.Warn("the marks of the data on the disk are damaged and are not used", slog.String("file", path))
		return nil, nil
	}
	return m, nil
}

func checksumText(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

func writeMarks(dir string, m marks) error {
	b, err := json.Marshal(m)
	if err == nil {
		err = replaceFile(filepath.Join(dir, marksFile), append([]byte(checksumText(b)+"\n"), b...))
	}
	if err != nil {
		return fmt.Errorf("write the marks of the data on the disk: %w", err)
	}
	return nil
}

// dropMarks removes the marks, also from the disk.
func dropMarks(dir string) error {
	err := os.Remove(filepath.Join(dir, marksFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncFolder(dir)
	}
	if err != nil {
		return fmt.Errorf("remove the marks of the data on the disk: %w", err)
	}
	return nil
}

// syncFolder syncs the names in a folder.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// startMarks writes or removes the marks at a start, before the broker writes anything.
func (b *Broker) startMarks(found scrubbed) error {
	if b.commits == nil {
		return dropMarks(b.cfg.Dir)
	}
	// Batches that an earlier broker wrote without acknowledging them must be on the disk before a client reads it.
	if err := b.commits.sync(written{everything: true}); err != nil {
		return err
	}
	if err := writeMarks(b.cfg.Dir, found.ends); err != nil {
		return err
	}
	return syncFolder(b.cfg.Dir)
}

// keepMarks renews the marks while the broker writes.
func (b *Broker) keepMarks(stop <-chan struct{}) {
	defer close(b.marked)
	tick := time.NewTicker(marksEvery)
	defer tick.Stop()
	var last uint64
	var failing bool
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := b.commits.carried()
		if now == last {
			continue
		}
		if err := b.mark(stop); err != nil {
			if !failing {
				b.cfg.Logger.Warn("cannot write the marks of the data on the disk; after a power cut the next start may cut acknowledged records too: free space or replace the disk", "error", err)
			}
			failing = true
			continue
		}
		failing, last = false, now
	}
}

// mark reads the end of each log and then syncs, so everything up to these ends is on the disk.
func (b *Broker) mark(stop <-chan struct{}) error {
	topics, err := readTopics(b.cfg.Dir)
	if err != nil {
		return err
	}
	m := make(marks, 0, len(topics))
	for _, t := range topics {
		ends := make([]int64, 0, t.Partitions)
		for _, p := range b.cluster.PartitionInfos(t.Name) {
			ends = append(ends, p.HighWatermark)
		}
		// The ID is read last: a topic that was created again in the meantime has another ID, and no mark.
		if info := b.cluster.TopicInfo(t.Name); info != nil && bytes.Equal(info.TopicID[:], t.ID) {
			m = append(m, topicMarks{Name: t.Name, ID: t.ID, Ends: ends})
		}
	}
	if reflect.DeepEqual(m, b.known) { // only offsets of groups have changed
		return nil
	}
	if err := b.commits.another(stop); err != nil {
		return err
	}
	if err := writeMarks(b.cfg.Dir, m); err != nil {
		return err
	}
	b.known = m
	return nil
}

// endMarks ends keepMarks. The marks stay until the broker has stopped cleanly.
func (b *Broker) endMarks() {
	if b.unmark != nil {
		close(b.unmark)
		<-b.marked
		b.unmark = nil
	}
}

// unacknowledged reports whether the rest of the log was never acknowledged, because the last run used Fsync and had not synced
// it.
func (l *logScrub) unacknowledged() bool { return l.marked && l.next >= l.mark }

// cutUnacknowledged removes the rest of a log from a hole on.
func (l *logScrub) cutUnacknowledged(file string, at, size int64, later []int64, fault string) {
	l.ended, l.forget = true, true
	offset := l.next
	l.repair(func() error {
		l.log.Warn("cut the records after the last ones known to have been on the disk when the broker died; everything acknowledged more than a second before is intact",
			slog.String("topic", l.topic), slog.Int("partition", int(l.partition)), slog.Int64("offset", offset),
			slog.Int64("durable", l.mark), slog.Int64("bytes", size-at), slog.Int("segments", len(later)), slog.String("file", file),
			slog.String("fault", fault))
		// The last segment goes first: if this process dies here, the next start cuts at the same place.
		for i := len(later) - 1; i >= 0; i-- {
			for _, name := range []string{segmentName(later[i]), indexName(later[i])} {
				if err := removeFile(l.path(name)); err != nil {
					return fmt.Errorf("cut the log of %s/%d: %w", l.topic, l.partition, err)
				}
			}
		}
		if at == size {
			return nil
		}
		if err := os.Truncate(file, at); err != nil {
			return fmt.Errorf("cut the log of %s/%d: %w", l.topic, l.partition, err)
		}
		return nil
	})
}

// forget removes files that an interrupted stop may have left and that claim more than the logs hold. Otherwise the broker would treat
// a resend of a lost record as a duplicate.
func forget(dir string) error {
	for _, name := range []string{sequencesFile, sessionFile} {
		if err := removeFile(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what the broker saved about lost records: %w", err)
		}
	}
	return nil
}
