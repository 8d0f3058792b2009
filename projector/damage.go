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

// damageMark is a file beside Pebble's. A damaged byte is met when it is read, which may be hours after the start and
// then at each start anew; the mark has the next Open refuse at once, so that the store is built anew.
const damageMark = "DAMAGED"

// damage is what was found of a database that can no longer be believed.
type damage struct {
	once  sync.Once
	found chan struct{}
	err   error
}

func newDamage() *damage { return &damage{found: make(chan struct{})} }

// corrupted is told by Pebble of each damage that a read or a compaction meets. The first one counts.
func (d *damage) corrupted(o Options, dir string, info pebble.DataCorruptionInfo) {
	d.once.Do(func() {
		d.err = damaged(dir, fmt.Errorf("%s: %w", info.Path, info.Details))
		o.Logger.Error("state store: damaged", "error", d.err)
		if err := markDamaged(o.FS, dir, d.err); err != nil {
			o.Logger.Error("state store: the mark of the damage cannot be written, so the next start meets it again", "error", err)
		}
		close(d.found)
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
	said, _ := io.ReadAll(f) // without it the error still says what to do
	return fmt.Errorf("%w: damage was found before (%s); delete %s, it is rebuilt from the log", ErrDamaged, strings.TrimSpace(string(said)), dir)
}

// Damaged is closed when a read or a compaction has met damage. What was read before is right; from then on reads may
// fail with ErrDamaged, and nothing mends the database but building it anew: the process should end.
func (s *Store) Damaged() <-chan struct{} { return s.damage.found }

// Damage says what was found, nil before Damaged is closed.
func (s *Store) Damage() error {
	select {
	case <-s.damage.found:
		return s.damage.err
	default:
		return nil
	}
}

// readError names an error of Pebble's.
func readError(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: read the state store: %w", ErrDamaged, err)
	}
	return fmt.Errorf("read the state store: %w", err)
}

// closeFailed closes an iterator after what it read was no good, and says whether that is damage of the file or of the row.
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
