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

// checkpointDefinitions is the file of a checkpoint that holds the records of the topic definitions, one a line.
const checkpointDefinitions = "definitions.ndjson"

// definitionLine is a line of that file. Value is absent in a tombstone.
type definitionLine struct {
	Offset  int64       `json:"offset"`
	Key     []byte      `json:"key"`
	Value   []byte      `json:"value"`
	Headers [][2]string `json:"headers,omitempty"`
	Control bool        `json:"control,omitzero"`
}

func writeDefinitions(ctx context.Context, fs FS, dir string, read func(context.Context, func(events.Record) error) error) (CheckpointFile, error) {
	f, err := fs.Create(fs.PathJoin(dir, checkpointDefinitions), vfs.WriteCategoryUnspecified)
	if err != nil {
		return CheckpointFile{}, err
	}
	w := bufio.NewWriter(f)
	lines := json.NewEncoder(w)
	err = read(ctx, func(r events.Record) error {
		line := definitionLine{Offset: r.Offset, Key: r.Key, Value: r.Value, Control: r.Control}
		for _, h := range r.Headers {
			line.Headers = append(line.Headers, [2]string{h.Key, string(h.Value)})
		}
		return lines.Encode(line)
	})
	if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return CheckpointFile{}, err
	}
	return sumFile(fs, dir, checkpointDefinitions)
}

// Definitions returns the records of the topic definitions in a checkpoint, whose manifest is c; none if it holds none. fs is nil for the disk.
func (c *Checkpoint) Definitions(fs FS, dir string) (records []events.Record, err error) {
	fs = cmp.Or(fs, vfs.Default)
	if c.DefinitionsFile.Name == "" {
		return nil, nil
	}
	if found, err := sumFile(fs, dir, checkpointDefinitions); err != nil || found != c.DefinitionsFile {
		return nil, fmt.Errorf("%w: %s: %w", ErrCheckpoint, dir, cmp.Or(err, fmt.Errorf("the file %s is damaged: its checksum is wrong", checkpointDefinitions)))
	}
	f, err := fs.Open(fs.PathJoin(dir, checkpointDefinitions))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); ; {
		var line definitionLine
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return nil, fmt.Errorf("%w: %s: %s: %w", ErrCheckpoint, dir, checkpointDefinitions, err)
		}
		r := events.Record{Offset: line.Offset, Key: line.Key, Value: line.Value, Control: line.Control}
		for _, h := range line.Headers {
			r.Headers = append(r.Headers, events.Header{Key: h[0], Value: []byte(h[1])})
		}
		records = append(records, r)
	}
}
