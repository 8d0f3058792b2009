package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/sagalog/sagalog/supervisor"
)

// marks keeps the marks that owners leave behind, however their process ends: a small file for each partition. It is not synced,
// because written data outlives the process in the machine's memory. A fault of a mark is logged and never stops an owner:
// without its mark, an input that ends processes only does so more often.
type marks struct {
	dir string
	log *slog.Logger
	// failed makes a mark that could not be written appear in the log only once.
	failed sync.Once
}

func (m *marks) path(partition int32) string {
	return filepath.Join(m.dir, strconv.Itoa(int(partition)))
}

// read returns the mark that the process before this one left.
func (m *marks) read(partition int32) (mark supervisor.Mark) {
	f, err := os.Open(m.path(partition))
	if errors.Is(err, fs.ErrNotExist) {
		return mark
	}
	if err == nil {
		defer f.Close()
		err = json.NewDecoder(f).Decode(&mark) // anything after the first value is left over from a longer mark
	}
	if err != nil {
		m.log.Warn("the mark of the last process, which says what it was judging when it ended, cannot be read; it is ignored", "partition", partition, "error", err)
		return supervisor.Mark{}
	}
	return mark
}

// keep replaces the mark. It writes in place and in one call, and does not truncate: the process may end at any moment.
func (m *marks) keep(partition int32, mark supervisor.Mark) {
	if err := m.write(partition, mark); err != nil {
		m.failed.Do(func() {
			m.log.Warn("the mark of the input being judged cannot be written; an input that ends the process may end more than three processes", "partition", partition, "error", err)
		})
	}
}

func (m *marks) write(partition int32, mark supervisor.Mark) error {
	if mark.IsZero() {
		if err := os.Remove(m.path(partition)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(m.path(partition), os.O_WRONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return err
		}
		f, err = os.OpenFile(m.path(partition), os.O_WRONLY|os.O_CREATE, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}
