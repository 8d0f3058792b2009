package projector

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkManifest refuses a database whose manifest cannot be read to its end.
//
// Pebble takes an unreadable end for a torn write and continues with what precedes it. But a manifest without its last edits
// names an older set of tables: some may be gone, and tables that it does not name are deleted. If a write really was torn,
// refusing costs a rebuild, which is slow but never wrong.
func checkManifest(fs vfs.FS, dir string) error {
	db, err := pebble.Peek(dir, fs)
	if err != nil {
		return openError(dir, err)
	}
	if !db.Exists {
		return nil
	}
	f, err := fs.Open(fs.PathJoin(dir, fs.PathBase(db.ManifestFilename)))
	if err != nil {
		return openError(dir, err)
	}
	defer f.Close()
	edits := record.NewReader(f, 0)
	for {
		r, err := edits.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			return damaged(dir, fmt.Errorf("%s: %w", db.ManifestFilename, err))
		}
	}
}
