package embedded

import (
	"errors"
	"os"
)

// WatchDisk calls seen before each sync of a file, with its name, and with "" before each sync of the file system. It must be called before the
// broker has clients. From then on marks are written by MarkNow only.
func WatchDisk(b *Broker, seen func(file string) error) {
	b.endMarks()
	one, all := b.disk.syncFile, b.disk.syncAll
	b.disk.syncFile = func(f *os.File) error { return errors.Join(seen(f.Name()), one(f)) }
	b.disk.syncAll = func(f *os.File) error { return errors.Join(seen(""), all(f)) }
}
