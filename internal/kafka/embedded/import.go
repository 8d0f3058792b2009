package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagalog/sagalog/internal/kafka/batch"
)

// importSegment is about how large the files of an imported log become: kfake reads whole files when it starts.
const importSegment = segmentBytes

// ImportLog makes the batches that read yields the log of a partition that holds none. The topic must exist in the directory, and no broker may
// run on it. The next Open checks the log as after a crash. yield may keep nothing. An error leaves a part of the log: the caller removes the directory.
func ImportLog(ctx context.Context, dir, topic string, partition int32, read func(yield func(batch.Batch) error) error) (err error) {
	l := &logScrub{dir: filepath.Join(dir, "partitions", logFolder(topic, int(partition)))}
	if bases, err := l.bases(); err != nil || len(bases) > 0 {
		return errors.Join(err, fmt.Errorf("import the log of %s/%d: it holds records", topic, partition))
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if err := removeFile(l.path(snapshotFile)); err != nil {
		return err
	}
	var file *os.File
	var size int64
	closeFile := func() (err error) {
		if file != nil {
			err = errors.Join(file.Sync(), file.Close())
			file, size = nil, 0
		}
		return err
	}
	err = read(func(b batch.Batch) (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if size > 0 && size+int64(b.Size()) > importSegment {
			if err := closeFile(); err != nil {
				return err
			}
		}
		if file == nil {
			if file, err = os.OpenFile(l.path(segmentName(b.First())), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
				return err
			}
		}
		n, err := file.Write(b.Bytes())
		size += int64(n)
		return err
	})
	if err = errors.Join(err, closeFile()); err != nil {
		return fmt.Errorf("import the log of %s/%d: %w", topic, partition, err)
	}
	return nil
}

// BeginImport prepares a directory in which a broker was stopped for ImportLog: what was known of its logs does not count any more.
func BeginImport(dir string) error {
	if err := errors.Join(dropSums(dir), removeFile(filepath.Join(dir, sessionFile))); err != nil {
		return err
	}
	empty, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "0.*"))
	for _, name := range empty { // an empty file would stand in front of a log that begins later
		info, statErr := os.Stat(name)
		if statErr == nil && info.Size() == 0 && (strings.HasSuffix(name, ".dat") || strings.HasSuffix(name, ".idx")) {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}
