package kafka

import (
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

// The files of kfake's data directory (its persist.go): topics.json lists the topics; partitions/<topic>-<p>/ holds
// <first offset>.dat with record batches as they are on the wire, <first offset>.idx with 15 bytes for each batch, and
// snapshot.json from the last clean stop.
const (
	metaFile     = "meta.json"
	topicsFile   = "topics.json"
	sessionFile  = "session_state.json"
	snapshotFile = "snapshot.json"
	// sequencesFile is what the broker knows at a clean stop of what each producer has sent last.
	sequencesFile = "seq_windows.json"
)

// scrubbed is what a scrub has found.
type scrubbed struct {
	// ends is how far each log goes.
	ends marks
	// transactional: some log has batches of transactions.
	transactional bool
}

// scrub reads every log before the broker does. The broker would cut a log at the first damaged byte and go on, and
// believes offsets that no checksum covers; so a hole is refused here, while a torn last batch, which nobody was
// promised, is cut. It also mends what the broker only derives: indexes, and snapshots that a crash left behind, since
// without a snapshot the broker holds the whole log in memory while it starts. Nothing is changed before all is judged.
func scrub(dir string, log *slog.Logger) (scrubbed, error) {
	var found scrubbed
	if err := checkSums(dir); err != nil {
		return found, err
	}
	topics, err := readTopics(dir)
	if err != nil {
		return found, err
	}
	if err := refuseStrays(dir, topics); err != nil {
		return found, err
	}
	known, err := readMarks(dir, log)
	if err != nil {
		return found, err
	}
	_, err = os.Stat(filepath.Join(dir, sessionFile))
	hasSessions := err == nil && known == nil // with marks the stop that wrote it did not end, or is long ago
	var errs []error
	var mends []func() error
	var forgets bool
	room := new(fileRoom)
	for _, t := range topics {
		ends := make([]int64, t.Partitions)
		for p := range t.Partitions {
			l := &logScrub{
				topic: t.Name, partition: int32(p), compacted: strings.Contains(t.Configs["cleanup.policy"], "compact"),
				dir: filepath.Join(dir, "partitions", logFolder(t.Name, p)), log: log, room: room, marked: known != nil, mark: known.of(t, p),
			}
			errs = append(errs, l.run(hasSessions))
			mends = append(mends, l.mends...)
			if len(l.segments) > 0 { // an empty log may begin anew at 0
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
		mends = append(mends, func() error { return forget(dir) })
	}
	for _, name := range stateLogs {
		mends = append(mends, func() error { return mendStateLog(filepath.Join(dir, name), log) })
	}
	// The old checksums go first: who dies between a snapshot that is mended and the new list must not be refused.
	if err := dropSums(dir); err != nil {
		return found, fmt.Errorf("remove the broker's checksums: %w", err)
	}
	for _, mend := range append(mends, func() error { return writeSums(dir, false) }) {
		if err := mend(); err != nil {
			return found, err
		}
	}
	return found, nil
}

// refuseStrays refuses logs that the list of topics does not name: the list lost a topic or a partition, and what is in
// the log would be served no more.
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

// readTopics returns nil for a directory that holds nothing yet. Without meta.json or topics.json the broker would
// start empty and write over what is there.
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
	if err := json.Unmarshal(b, &list); err != nil {
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
	// marked: the last run left marks, of which this partition's is mark.
	marked bool
	mark   int64

	segments []segmentScrub
	// next is the offset that the next batch must have; -1 before the first.
	next  int64
	epoch int32
	// transactional: some batch belonged to a transaction, so what was aborted is for the broker to find out.
	transactional bool
	maxTimestamp  int64
	// ended: the log is cut, and what follows is no more of it.
	ended bool
	// forget: what an unfinished stop wrote may tell of more than the log has.
	forget bool
	// mends is what to change when every log was found whole.
	mends []func() error
}

type segmentScrub struct {
	base, size         int64
	minEpoch, maxEpoch int32
}

func (l *logScrub) run(hasSessions bool) error {
	bases, err := l.bases()
	if err != nil || bases == nil {
		return err
	}
	l.next = -1
	for i, base := range bases {
		if err := l.segment(base, bases[i+1:]); err != nil {
			return err
		}
		if l.ended {
			break
		}
	}
	return l.snapshot(hasSessions)
}

// bases lists the segments that hold anything, and returns nil where the partition was never written. An empty file is
// left by a crash between making it and writing to it; the broker skips it too. Above the mark it may be all that is left
// of one, and counts.
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

func (l *logScrub) mend(what func() error) { l.mends = append(l.mends, what) }

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
