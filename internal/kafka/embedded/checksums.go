package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumsFile holds checksums of kfake's small files, which do not contain any. A digit that rots in one of them is still a number, and
// could silently hide the end or the beginning of a log.
const sumsFile = "sums.json"

// smallFiles are the files whose content is known only after a clean stop. The snapshot of each partition is listed too. Nobody
// writes snapshots while the broker runs, so their checksums stay valid after a crash.
var smallFiles = []string{metaFile, topicsFile, sessionFile, "groups.log", "pids.log", sequencesFile, "broker_configs.json", "acls.json", "sasl.json", "quotas.json"}

// sums holds the checksums from the last start or clean stop.
type sums struct {
	// Clean says that the broker was stopped cleanly, so all small files must be as listed.
	Clean bool              `json:"clean"`
	Files map[string]uint32 `json:"files"`
}

// checkSums refuses a directory in which a listed file has changed. A missing snapshot is accepted, because an operator removes one to
// accept a loss. Without the list, for example after a crash in the middle of a stop, nothing is checked.
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
			errs = append(errs, fmt.Errorf("a file of the broker is missing: %w; restore it from a copy of the same time as the others", err))
		case crc32.Checksum(b, castagnoli) != sum:
			errs = append(errs, fmt.Errorf("the file %s is damaged: it is not as the broker left it. Nothing was changed. Restore it from a copy of the same time as the others; "+
				"or, if an older version of this program, which does not know %s, has run here since, or it was changed by hand and is right, remove that list",
				path, filepath.Join(dir, sumsFile)))
		}
	}
	return errors.Join(errs...)
}

// writeSums lists the current files with their checksums. While the broker runs, only snapshots stay unchanged.
func writeSums(dir string, clean bool) error {
	if dir == "" { // everything is in memory
		return nil
	}
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

// dropSums is called before the broker stops, and before a start repairs anything: if the process dies before the new list is written, the
// next start must not be refused.
func dropSums(dir string) error {
	if dir == "" {
		return nil
	}
	return removeFile(filepath.Join(dir, sumsFile))
}
