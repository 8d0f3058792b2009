package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The files of kfake's data directory. topics.json lists the topics. partitions/<topic>-<p>/ holds <first offset>.dat with
// record batches as on the wire, <first offset>.idx with 15 bytes for each batch, and snapshot.json from the last clean stop.
const (
	metaFile     = "meta.json"
	topicsFile   = "topics.json"
	sessionFile  = "session_state.json"
	snapshotFile = "snapshot.json"
	// sequencesFile holds, after a clean stop, the last sequence numbers of each producer.
	sequencesFile = "seq_windows.json"
)

// scrubbed is the result of a scrub.
type scrubbed struct {
	// ends are the ends of all logs.
	ends marks
	// transactional says that some log has batches of transactions.
	transactional bool
}

// scrub reads every log before kfake does. kfake would cut a log at the first damaged byte and continue. It also trusts offsets that
// no checksum covers. So scrub refuses a hole. A torn last batch was never acknowledged, and is cut. scrub also repairs the files
// that kfake derives from the logs: indexes, and snapshots that a crash left stale. (Without a snapshot kfake holds the whole log in
// memory while it starts.) Nothing is changed before every log has been examined.
func scrub(dir string, log *slog.Logger) (scrubbed, error) {
	var found scrubbed
	x, err := begin(dir, log)
	if err != nil {
		return found, err
	}
	var errs []error
	var repairs []func() error
	var forgets bool
	for _, t := range x.topics {
		ends := make([]int64, t.Partitions)
		for p := range t.Partitions {
			l := x.scrubOf(t, p)
			errs = append(errs, l.run(context.Background(), x.hasSessions))
			repairs = append(repairs, l.repairs...)
			if len(l.segments) > 0 { // an empty log may begin again at 0
				ends[p] = l.next
			}
			found.transactional = found.transactional || l.transactional
			forgets = forgets || l.forget
		}
		found.ends = append(found.ends, topicMarks{Name: t.Name, ID: t.ID, Ends: ends})
	}
	if err := errors.Join(errs...); err != nil {
		return found, err
	}
	if forgets {
		repairs = append(repairs, func() error { return forget(dir) })
	}
	for _, name := range stateLogs {
		repairs = append(repairs, func() error { return repairStateLog(filepath.Join(dir, name), log) })
	}
	// The old checksums go first: if this process dies between a repaired snapshot and the new list, the next start must not be refused.
	if err := dropSums(dir); err != nil {
		return found, fmt.Errorf("remove the broker's checksums: %w", err)
	}
	for _, repair := range append(repairs, func() error { return writeSums(dir, false) }) {
		if err := repair(); err != nil {
			return found, err
		}
	}
	return found, nil
}

// examination is what examining one log after another needs.
type examination struct {
	dir    string
	log    *slog.Logger
	topics []topicEntry
	// marks are those of the last run; nil if there are none.
	marks marks
	// hasSessions says that the last run saved its open transactions.
	hasSessions bool
	room        *fileRoom
}

// begin reads what a data directory says about its logs, and refuses one that is not whole.
func begin(dir string, log *slog.Logger) (*examination, error) {
	x := &examination{dir: dir, log: log, room: new(fileRoom)}
	err := checkSums(dir)
	if err != nil {
		return nil, err
	}
	if x.topics, err = readTopics(dir); err != nil {
		return nil, err
	}
	if err := refuseStrays(dir, x.topics); err != nil {
		return nil, err
	}
	if x.marks, err = readMarks(dir, log); err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(dir, sessionFile))
	x.hasSessions = err == nil && x.marks == nil // if there are marks, it is from a stop that did not finish, or from an earlier one
	return x, nil
}

// scrubOf returns the scrub of a partition.
func (x *examination) scrubOf(t topicEntry, p int) *logScrub {
	return &logScrub{
		topic: t.Name, partition: int32(p), compacted: strings.Contains(t.Configs["cleanup.policy"], "compact"),
		dir: filepath.Join(x.dir, "partitions", logFolder(t.Name, p)), log: x.log, room: x.room, marked: x.marks != nil, mark: x.marks.of(t, p),
	}
}

// refuseStrays refuses logs that the list of topics does not name: the list has lost a topic or a partition, and its records would not be
// served any more.
func refuseStrays(dir string, topics []topicEntry) error {
	known := map[string]bool{}
	for _, t := range topics {
		for p := range t.Partitions {
			known[logFolder(t.Name, p)] = true
		}
	}
	logs, err := os.ReadDir(filepath.Join(dir, "partitions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the data directory: %w", err)
	}
	for _, l := range logs {
		if known[l.Name()] {
			continue
		}
		stray := &logScrub{dir: filepath.Join(dir, "partitions", l.Name())}
		if bases, err := stray.bases(); err != nil || len(bases) > 0 {
			return errors.Join(err, fmt.Errorf("the list of topics %s does not name the log in %s, so it would be served no more: restore the list from a copy of the same time; "+
				"or, if the topic was deleted, remove that folder", filepath.Join(dir, topicsFile), stray.dir))
		}
	}
	return nil
}

func logFolder(topic string, partition int) string {
	return url.PathEscape(topic) + "-" + strconv.Itoa(partition)
}

type topicEntry struct {
	Name       string            `json:"name"`
	ID         []byte            `json:"id"`
	Partitions int               `json:"partitions"`
	Configs    map[string]string `json:"configs"`
}

// topicIDSize is the length of a topic's ID in bytes.
const topicIDSize = 16

// readTopics returns nil for an empty directory. Without meta.json or topics.json kfake would start empty and overwrite the existing
// logs.
func readTopics(dir string) ([]topicEntry, error) {
	logs, err := os.ReadDir(filepath.Join(dir, "partitions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the data directory: %w", err)
	}
	for _, name := range []string{metaFile, topicsFile} {
		_, err := os.Stat(filepath.Join(dir, name))
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist) && len(logs) == 0:
			return nil, nil
		default:
			return nil, fmt.Errorf("the data directory %s holds logs, but its %s cannot be read (%w): "+
				"restore that file from a copy; without it the broker would start empty", dir, name, err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, topicsFile))
	if err != nil {
		return nil, fmt.Errorf("read the list of topics: %w", err)
	}
	var list struct {
		Topics []topicEntry `json:"topics"`
	}
	err = json.Unmarshal(b, &list)
	for _, t := range list.Topics {
		if err == nil && len(t.ID) != topicIDSize { // kfake panics if it is longer
			err = fmt.Errorf("the ID of topic %s has %d bytes, must have %d", t.Name, len(t.ID), topicIDSize)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the list of topics %s is damaged (%w): restore it from a copy", filepath.Join(dir, topicsFile), err)
	}
	return list.Topics, nil
}

// logScrub is the scrub of one partition.
type logScrub struct {
	topic     string
	partition int32
	compacted bool
	dir       string
	log       *slog.Logger
	room      *fileRoom
	// marked says that the last run left marks. mark is the mark of this partition.
	marked bool
	mark   int64

	segments []segmentScrub
	// next is the offset that the next batch must have, -1 before the first.
	next  int64
	epoch int32
	// transactional says that some batch belongs to a transaction, so kfake has to replay the log to find the aborted ones.
	transactional bool
	maxTimestamp  int64
	// ended says that the log was cut and ends here.
	ended bool
	// forget says that files of an interrupted stop may claim more records than the log has.
	forget bool
	// repairs holds the changes to make once every log has been found intact.
	repairs []func() error
}

type segmentScrub struct {
	base, size         int64
	minEpoch, maxEpoch int32
}

// run examines the log. ctx ends that between two segments.
func (l *logScrub) run(ctx context.Context, hasSessions bool) error {
	bases, err := l.bases()
	if err != nil || bases == nil {
		return err
	}
	l.next = -1
	for i, base := range bases {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := l.segment(base, bases[i+1:]); err != nil {
			return err
		}
		if l.ended {
			break
		}
	}
	return l.snapshot(hasSessions)
}

// bases lists the segments that hold anything, and returns nil for a partition that was never written. A crash between creating a file and
// writing to it leaves an empty one, which kfake skips too. Above the mark an empty file counts, because it may be all that is left of a
// segment.
func (l *logScrub) bases() ([]int64, error) {
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of %s/%d: %w", l.topic, l.partition, err)
	}
	bases := []int64{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".dat")
		if !ok {
			continue
		}
		base, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			continue
		}
		if info, err := e.Info(); err == nil && (info.Size() > 0 || l.marked && base >= l.mark) {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

func (l *logScrub) repair(what func() error) { l.repairs = append(l.repairs, what) }

func (l *logScrub) path(name string) string { return filepath.Join(l.dir, name) }

func segmentName(base int64) string { return strconv.FormatInt(base, 10) + ".dat" }

func indexName(base int64) string { return strconv.FormatInt(base, 10) + ".idx" }

func (l *logScrub) damage(file string, position, offset int64, what string) *DamageError {
	return &DamageError{
		Topic: l.topic, Partition: l.partition, File: file, Position: position, Offset: offset, What: what,
		Remedy: "Nothing was changed. Restore the folder " + l.dir + " from a copy of the same time as the others; or, " +
			"if the loss of this partition's records from that offset on is accepted, stop the broker, cut the file at that " +
			"byte (truncate -s " + strconv.FormatInt(position, 10) + "), remove the later segments and " + snapshotFile +
			" of that folder, and rebuild the projection.",
	}
}
