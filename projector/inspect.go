package projector

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Inspect returns the ID of the namespace that the store in dir belongs to, or "" if there is no store. It changes nothing,
// not even what Open would bring up to date. It returns ErrNewer, ErrFormat, ErrLocked or ErrDamaged as Open does.
func Inspect(dir string) (namespace string, err error) {
	err = withoutPanic(dir, func() (err error) {
		namespace, err = inspect(dir)
		return err
	})
	return namespace, err
}

func inspect(dir string) (namespace string, err error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err := errors.Join(refuseDamaged(vfs.Default, dir), checkManifest(vfs.Default, dir)); err != nil {
		return "", err
	}
	described, err := pebble.Peek(dir, vfs.Default)
	if err != nil {
		return "", openError(dir, err)
	}
	if !described.Exists {
		return "", nil
	}
	o := Options{}.withDefaults()
	p := pebbleOptions(o, newMetrics(), &ending{dir: dir, fs: o.FS, log: o.Logger})
	p.ReadOnly, p.CacheSize = true, 1<<20
	p.FormatMajorVersion = described.FormatMajorVersion
	db, err := pebble.Open(dir, p)
	if err != nil {
		return "", openError(dir, err)
	}
	s := &Store{dir: dir, db: db, damage: newDamage()}
	defer func() { err = errors.Join(err, db.Close()) }()
	format, err := s.get([]byte{spaceStore, storeFormat})
	if err != nil || format == nil { // created but never initialised
		return "", err
	}
	if err := checkFormat(dir, string(format)); err != nil {
		return "", err
	}
	owner, err := s.get([]byte{spaceStore, storeNamespace})
	return string(owner), err
}

// checkFormat distinguishes an older format, which can be rebuilt from the log, from a newer one, which a newer version of
// this program wrote and an older one must not throw away.
func checkFormat(dir, format string) error {
	n, err := strconv.Atoi(format)
	switch {
	case err == nil && n == formatVersion:
		return nil
	case err == nil && n > formatVersion:
		return fmt.Errorf("%w: %s has format %d, this version reads %d; run the newer version, or give another data directory", ErrNewer, dir, n, formatVersion)
	}
	return fmt.Errorf("%w: %q in %s, this version has \"%d\"; delete that directory, it is rebuilt from the log", ErrFormat, format, dir, formatVersion)
}

// unknownToPebble reports whether a newer Pebble wrote the files.
func unknownToPebble(err error) bool {
	return strings.Contains(err.Error(), "unknown format major version")
}

// FreeBytes returns the free space of the disk that dir is on.
func FreeBytes(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	return usage.AvailBytes, err
}
