package kafka

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

// Before the group commit (commits.go) each batch was on the disk before the next one was written, so a power cut could
// tear the last one only. Now several batches of a partition wait in the page cache together, and the cut may leave a
// later one and take an earlier one. A sync covers all that was written before it, so what lies at or behind such a hole
// was told to nobody; but the logs alone do not say whether a hole is that or damage. So a broker with Fsync writes down
// now and then how far each partition was surely on the disk, its mark, and the scrub cuts a hole at or above it.
//
// Invariant: a mark is never above what the disk has. It may be below: what was acknowledged since it was written is not
// told from what was not, as it never was of a torn last batch. What the disk said that it has it must keep either way.
//
// A clean stop removes the marks, and so does a start without Fsync before anything is written: above them lie then
// records that were acknowledged out of the page cache.
const (
	marksFile = "durable.json"
	// marksEvery: a file written each second costs nothing to speak of, and bounds how much a mark is behind.
	marksEvery = time.Second
)

// topicMarks are the marks of a topic's partitions. Without its ID they would outlive a topic that was deleted and made anew.
type topicMarks struct {
	Name string  `json:"name"`
	ID   []byte  `json:"id"`
	Ends []int64 `json:"ends"`
}

// marks are what the last run left; nil is none: then nothing is known of what the disk has.
type marks []topicMarks

// of returns the mark of a partition. One that is not listed was made later, so nothing of it was surely on the disk.
func (m marks) of(t topicEntry, partition int) int64 {
	for _, known := range m {
		if known.Name == t.Name && bytes.Equal(known.ID, t.ID) && partition < len(known.Ends) {
			return known.Ends[partition]
		}
	}
	return 0
}

// readMarks takes a file that is not whole for none: a digit that rotted would have the scrub cut what was acknowledged.
func readMarks(dir string, log *slog.Logger) (marks, error) {
	path := filepath.Join(dir, marksFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read how far the logs were on the disk: %w", err)
	}
	sum, body, _ := bytes.Cut(b, []byte("\n"))
	m := marks{}
	if string(sum) != checksumText(body) || json.Unmarshal(body, &m) != nil {
		log.Warn("what is written of how far the logs were on the disk cannot be read, and is not used", slog.String("file", path))
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
		return fmt.Errorf("write how far the logs are on the disk: %w", err)
	}
	return nil
}

// dropMarks returns when the disk has forgotten the marks, too.
func dropMarks(dir string) error {
	err := os.Remove(filepath.Join(dir, marksFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncFolder(dir)
	}
	if err != nil {
		return fmt.Errorf("remove what is written of how far the logs were on the disk: %w", err)
	}
	return nil
}

// syncFolder has the disk know what a folder names.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// startMarks settles at a start what the disk is known to have, before the broker writes anything.
func (b *Broker) startMarks(found scrubbed) error {
	if b.commits == nil {
		return dropMarks(b.cfg.Dir)
	}
	// What an earlier broker has written, and nobody was told of, is on the disk before it is read.
	if err := b.commits.sync(); err != nil {
		return err
	}
	if err := writeMarks(b.cfg.Dir, found.ends); err != nil {
		return err
	}
	return syncFolder(b.cfg.Dir)
}

// keepMarks writes the marks anew while the broker writes.
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
				b.cfg.Logger.Warn("the marks of what is on the disk cannot be written; after a power cut now the next start may cut acknowledged records too; make room or mend the disk", "error", err)
			}
			failing = true
			continue
		}
		failing, last = false, now
	}
}

// mark looks first how far each log goes; then a sync begins and ends, and so much is on the disk.
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
		// Looked at last: a topic that was made anew meanwhile has another ID, and no mark.
		if info := b.cluster.TopicInfo(t.Name); info != nil && bytes.Equal(info.TopicID[:], t.ID) {
			m = append(m, topicMarks{Name: t.Name, ID: t.ID, Ends: ends})
		}
	}
	if reflect.DeepEqual(m, b.known) { // what changed are the offsets of groups
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

// endMarks has keepMarks write none any more. The marks stay until the broker has stopped cleanly.
func (b *Broker) endMarks() {
	if b.unmark != nil {
		close(b.unmark)
		<-b.marked
		b.unmark = nil
	}
}

// untold is whether nobody was told of what comes next in the log: the last run synced, and had not synced that.
func (l *logScrub) untold() bool { return l.marked && l.next >= l.mark }

// cutUntold removes what is left of a log at and behind a hole.
func (l *logScrub) cutUntold(file string, at, size int64, later []int64, fault string) {
	l.ended, l.forget = true, true
	offset := l.next
	l.mend(func() error {
		l.log.Warn("cut what is left of records behind the last that are known to have been on the disk when the broker died; what was acknowledged before the last second is whole",
			slog.String("topic", l.topic), slog.Int("partition", int(l.partition)), slog.Int64("offset", offset),
			slog.Int64("durable", l.mark), slog.Int64("bytes", size-at), slog.Int("segments", len(later)), slog.String("file", file),
			slog.String("fault", fault))
		// The last first, so that who dies here leaves a log that is cut at the same place again.
		for i := len(later) - 1; i >= 0; i-- {
			for _, name := range []string{segmentName(later[i]), indexName(later[i])} {
				if err := os.Remove(l.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// forget removes what a stop that a power cut did not let end may have left, which tells of more than is in the logs: the
// broker would take a resend of what is gone for one that it has stored.
func forget(dir string) error {
	for _, name := range []string{sequencesFile, sessionFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what the broker wrote of records that are gone: %w", err)
		}
	}
	return nil
}
