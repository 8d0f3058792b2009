package projector

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sagalog/sagalog/events"
)

// The files of a checkpoint that hold the records of a topic, one a line: of the topic definitions, and of that of keys.
const (
	checkpointDefinitions = "definitions.ndjson"
	checkpointKeys        = "keys.ndjson"
)

// recordLine is a line of these files. Value is absent in a tombstone.
type recordLine struct {
	Offset  int64       `json:"offset"`
	Key     []byte      `json:"key"`
	Value   []byte      `json:"value"`
	Headers [][2]string `json:"headers,omitempty"`
	Control bool        `json:"control,omitzero"`
}

// writeRecords writes the records of a topic to a file. It writes no file if there are no records, or if read is nil.
func writeRecords(ctx context.Context, fs FS, dir, name string, read ReadRecords) (CheckpointFile, error) {
	if read == nil {
		return CheckpointFile{}, nil
	}
	f, err := fs.Create(fs.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return CheckpointFile{}, err
	}
	w, written := bufio.NewWriter(f), false
	lines := json.NewEncoder(w)
	err = read(ctx, func(r events.Record) error {
		written = true
		line := recordLine{Offset: r.Offset, Key: r.Key, Value: r.Value, Control: r.Control}
		for _, h := range r.Headers {
			line.Headers = append(line.Headers, [2]string{h.Key, string(h.Value)})
		}
		return lines.Encode(line)
	})
	if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return CheckpointFile{}, err
	}
	if !written {
		return CheckpointFile{}, fs.Remove(fs.PathJoin(dir, name))
	}
	return sumFile(fs, dir, name)
}

// Definitions returns the records of the topic definitions in a checkpoint, whose manifest is c; none if it holds none. fs is nil for the disk.
func (c *Checkpoint) Definitions(fs FS, dir string) ([]events.Record, error) {
	return readRecords(fs, dir, checkpointDefinitions, c.DefinitionsFile)
}

// Keys returns the records of the topic of keys in a checkpoint, like Definitions.
func (c *Checkpoint) Keys(fs FS, dir string) ([]events.Record, error) {
	return readRecords(fs, dir, checkpointKeys, c.KeysFile)
}

func readRecords(fs FS, dir, name string, want CheckpointFile) (records []events.Record, err error) {
	fs = cmp.Or(fs, vfs.Default)
	if want.Name == "" {
		return nil, nil
	}
	if found, err := sumFile(fs, dir, name); err != nil || found != want {
		return nil, fmt.Errorf("%w: %s: %w", ErrCheckpoint, dir, cmp.Or(err, fmt.Errorf("the file %s is damaged: its checksum is wrong", name)))
	}
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); ; {
		var line recordLine
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return nil, fmt.Errorf("%w: %s: %s: %w", ErrCheckpoint, dir, name, err)
		}
		r := events.Record{Offset: line.Offset, Key: line.Key, Value: line.Value, Control: line.Control}
		for _, h := range line.Headers {
			r.Headers = append(r.Headers, events.Header{Key: h[0], Value: []byte(h[1])})
		}
		records = append(records, r)
	}
}
