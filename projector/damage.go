package projector

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// damageMark is a file next to Pebble's. A damaged byte is found only when it is read, perhaps hours after each start; the mark
// makes the next Open refuse at once, so that the store is rebuilt.
const damageMark = "DAMAGED"

// damage records why a database can no longer be trusted.
type damage struct {
	once  sync.Once
	found chan struct{}
	err   error
}

func newDamage() *damage { return &damage{found: make(chan struct{})} }

// corrupted is called by Pebble for each damage that a read or a compaction finds. The first one counts.
func (s *Store) corrupted(o Options, info pebble.DataCorruptionInfo) {
	d := s.damage
	d.once.Do(func() {
		defer close(d.found)
		d.err = damaged(s.dir, fmt.Errorf("%s: %w", info.Path, info.Details))
		if s.readOnly {
			return
		}
		o.Logger.Error("state store: damaged", "error", d.err)
		if err := markDamaged(o.FS, s.dir, d.err); err != nil {
			o.Logger.Error("state store: the damage mark cannot be written, so the next start will find the damage again", "error", err)
		}
	})
}

func markDamaged(fs vfs.FS, dir string, found error) error {
	f, err := fs.Create(fs.PathJoin(dir, damageMark), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, found.Error()+"\n")
	return errors.Join(err, f.Close())
}

// refuseDamaged refuses a database in which damage was found before.
func refuseDamaged(disk vfs.FS, dir string) error {
	f, err := disk.Open(disk.PathJoin(dir, damageMark))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the state store: %w", err)
	}
	defer f.Close()
	said, _ := io.ReadAll(f) // even without it the error says what to do
	return fmt.Errorf("%w: damage was found before (%s); delete %s, it is rebuilt from the log", ErrDamaged, strings.TrimSpace(string(said)), dir)
}

// Damaged is closed when a read or a compaction has found damage. Everything read before is right; later reads may fail with
// ErrDamaged. Only rebuilding helps, so the process should end.
func (s *Store) Damaged() <-chan struct{} { return s.damage.found }

// Damage returns the damage that was found, or nil before Damaged is closed.
func (s *Store) Damage() error {
	select {
	case <-s.damage.found:
		return s.damage.err
	default:
		return nil
	}
}

// readError wraps an error of Pebble's.
func readError(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w: %w", ErrDamaged, ErrRead, err)
	}
	return fmt.Errorf("%w: %w", ErrRead, err)
}

// closeFailed closes an iterator after a row could not be used. If the iterator itself failed, that error counts.
func closeFailed(err error, it *pebble.Iterator) error {
	err = errors.Join(err, it.Close())
	if pebble.IsCorruptionError(err) && !errors.Is(err, ErrDamaged) {
		return readError(err)
	}
	return err
}

func damaged(dir string, err error) error {
	return fmt.Errorf("%w: %w; delete %s, it is rebuilt from the log", ErrDamaged, err, dir)
}
