package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// beginsFile holds where the partitions begin. kfake saves that only when it stops cleanly. After a crash, a partition whose records were
// deleted would begin at its first remaining segment, with records that were deleted. But the log of facts is cut exactly where a carry
// begins, and a reader without a state refuses a log that begins with another fact. So the offset is on the disk before kfake deletes
// anything, and the next start deletes below it again before the broker has clients.
//
// The file lists each partition that does not begin at 0, so it is small.
const beginsFile = "begins.json"

// topicBegins says where the partitions of a topic begin. The ID distinguishes a topic that was deleted and created again.
type topicBegins struct {
	Name   string  `json:"name"`
	ID     []byte  `json:"id"`
	Begins []int64 `json:"begins"`
}

// readBegins ignores a damaged file: with one wrong digit the broker would delete records that are needed.
func readBegins(dir string, log *slog.Logger) ([]topicBegins, error) {
	path := filepath.Join(dir, beginsFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read where the partitions begin: %w; let this user read that file", err)
	}
	var list []topicBegins
	sum, body, _ := bytes.Cut(b, []byte("\n"))
	if string(sum) != checksumText(body) || json.Unmarshal(body, &list) != nil {
		log.Warn("the file that says where the partitions begin is damaged and is not used: after a crash, records that were deleted may be there again. "+
			"A node that still has its state needs nothing; one without cannot load a partition until its log is cut the next time", slog.String("file", path))
		return nil, nil
	}
	return list, nil
}

// restoreBegins deletes what was deleted before a crash. It never empties a partition: if the log ends below the recorded offset (a power
// cut without Fsync took its last records, or an older copy was restored), the records that are left stay.
func (b *Broker) restoreBegins(known []topicBegins) error {
	stale := false
	for _, t := range known {
		info := b.cluster.TopicInfo(t.Name)
		if info == nil || !bytes.Equal(info.TopicID[:], t.ID) {
			continue
		}
		for p, begin := range t.Begins {
			now := b.cluster.PartitionInfo(t.Name, int32(p))
			if now == nil || begin <= now.LogStartOffset {
				continue
			}
			if begin >= now.HighWatermark {
				stale = true
				b.cfg.Logger.Warn("the records of a partition were deleted up to an offset that its log does not reach any more: those that are left stay",
					slog.String("topic", t.Name), slog.Int("partition", p), slog.Int64("deleted", begin), slog.Int64("offset", now.HighWatermark))
				continue
			}
			if err := b.cluster.DeleteRecords(t.Name, int32(p), begin); err != nil {
				return fmt.Errorf("delete the records of %s/%d below %d again: %w", t.Name, p, begin, err)
			}
		}
	}
	if stale { // otherwise the next start would delete records that are written from now on
		return b.saveBegins(nil)
	}
	return nil
}

type partition struct {
	topic  string
	number int32
}

// beforeDelete saves where partitions will begin, and lets the request pass. kfake calls it, and carries out nothing else meanwhile. If the
// file cannot be written, nothing is deleted.
func (b *Broker) beforeDelete(r kmsg.Request) (kmsg.Response, error, bool) {
	req := r.(*kmsg.DeleteRecordsRequest)
	if !b.deleting.TryLock() {
		return nil, net.ErrClosed, true // the broker stops, and kfake may have saved its state already
	}
	defer b.deleting.Unlock()
	raised := map[partition]int64{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			now := b.cluster.PartitionInfo(t.Topic, p.Partition)
			if now == nil {
				continue
			}
			begin := p.Offset
			if begin == -1 { // everything
				begin = now.HighWatermark
			}
			if begin > now.LogStartOffset && begin <= now.HighWatermark { // otherwise kfake refuses it, or it changes nothing
				at := partition{t.Topic, p.Partition}
				raised[at] = max(raised[at], begin)
			}
		}
	}
	if len(raised) == 0 {
		return nil, nil, false
	}
	if err := b.saveBegins(raised); err != nil {
		b.cluster.KeepControl()
		b.cfg.Logger.Warn("the embedded broker deletes no records: free space or replace the disk", "error", err)
		return refusedDelete(req), nil, true
	}
	return nil, nil, false
}

func refusedDelete(req *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for _, t := range req.Topics {
		of := kmsg.NewDeleteRecordsResponseTopic()
		of.Topic = t.Topic
		for _, p := range t.Partitions {
			refused := kmsg.NewDeleteRecordsResponseTopicPartition()
			refused.Partition, refused.ErrorCode = p.Partition, kerr.KafkaStorageError.Code
			of.Partitions = append(of.Partitions, refused)
		}
		resp.Topics = append(resp.Topics, of)
	}
	return resp
}

// saveBegins writes where all partitions begin, and where those in raised will begin.
func (b *Broker) saveBegins(raised map[partition]int64) error {
	topics, err := readTopics(b.cfg.Dir)
	if err != nil {
		return err
	}
	list := []topicBegins{}
	for _, t := range topics {
		begins, later := make([]int64, t.Partitions), false
		for _, p := range b.cluster.PartitionInfos(t.Name) {
			if int(p.Partition) < len(begins) {
				begins[p.Partition] = max(p.LogStartOffset, raised[partition{t.Name, p.Partition}])
				later = later || begins[p.Partition] > 0
			}
		}
		if later {
			list = append(list, topicBegins{Name: t.Name, ID: t.ID, Begins: begins})
		}
	}
	body, err := json.Marshal(list)
	if err == nil {
		err = replaceFile(filepath.Join(b.cfg.Dir, beginsFile), append([]byte(checksumText(body)+"\n"), body...))
	}
	if err == nil && b.cfg.Fsync {
		err = syncFolder(b.cfg.Dir)
	}
	if err != nil {
		return fmt.Errorf("write where the partitions begin: %w", err)
	}
	return nil
}

// waitingListener accepts nobody before the partitions begin where they did.
type waitingListener struct {
	net.Listener
	ready <-chan struct{}
	admit func()
}

// Accept implements net.Listener.
func (l waitingListener) Accept() (net.Conn, error) {
	<-l.ready
	return l.Listener.Accept()
}

// Close implements net.Listener.
func (l waitingListener) Close() error {
	err := l.Listener.Close()
	l.admit() // Accept returns the error of a closed listener
	return err
}
