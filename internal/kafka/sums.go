package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// sumsFile holds checksums of the broker's small files, which have none of their own: a digit that rots in one of them
// is a number like any other, and would hide the end or the beginning of a log without a word.
const sumsFile = "sums.json"

// smallFiles are those that only a clean stop leaves in a known state; each partition's snapshot is one more. The
// snapshots are written by nobody while the broker runs, so their sums hold over a crash, too.
var smallFiles = []string{metaFile, topicsFile, sessionFile, "groups.log", "pids.log", sequencesFile, "broker_configs.json", "acls.json", "sasl.json", "quotas.json"}

// sums are the checksums that the last start or clean stop left.
type sums struct {
	// Clean says that the broker was stopped well, so that all small files are as listed.
	Clean bool              `json:"clean"`
	Files map[string]uint32 `json:"files"`
}

// checkSums refuses a directory in which a listed file is not as it was left. A missing snapshot is none of that: taking
// it away is how somebody accepts a loss. Without the list, as after a crash in the middle of a stop, nothing is known.
func checkSums(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var s sums
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return fmt.Errorf("the checksums %s cannot be read (%w): remove that file to start without them", filepath.Join(dir, sumsFile), err)
	}
	var errs []error
	for name, sum := range s.Files {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && (!s.Clean || filepath.Base(name) == snapshotFile):
		case err != nil:
			errs = append(errs, fmt.Errorf("a file of the broker is gone: %w; restore it from a copy of the same time as the others", err))
		case crc32.Checksum(b, castagnoli) != sum:
			errs = append(errs, fmt.Errorf("the file %s is damaged: it is not as the broker left it. Nothing was changed. Restore it from a copy of the same time as the others; "+
				"or, if an older version of this program, which does not know %s, has run here since, or it was changed by hand and is right, remove that list",
				path, filepath.Join(dir, sumsFile)))
		}
	}
	return errors.Join(errs...)
}

// writeSums lists the files as they are. While the broker runs, only the snapshots stay as they are.
func writeSums(dir string, clean bool) error {
	names, err := filepath.Glob(filepath.Join(dir, "partitions", "*", snapshotFile))
	if err != nil {
		return err
	}
	if clean {
		for _, name := range smallFiles {
			names = append(names, filepath.Join(dir, name))
		}
	}
	s := sums{Clean: clean, Files: make(map[string]uint32, len(names))}
	for _, path := range names {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write the broker's checksums: %w", err)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		s.Files[name] = crc32.Checksum(b, castagnoli)
	}
	b, err := json.Marshal(s)
	if err == nil {
		err = replaceFile(filepath.Join(dir, sumsFile), b)
	}
	if err != nil {
		return fmt.Errorf("write the broker's checksums: %w", err)
	}
	return nil
}

// dropSums comes before the broker is stopped, and before a start mends anything: whoever dies between what is then written
// and the new list must not be refused.
func dropSums(dir string) error {
	err := os.Remove(filepath.Join(dir, sumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
