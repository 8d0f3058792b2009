package node

import (
	"os"
	"sync"
)

// bodies keeps the bodies of definitions in a file without a name: it ends with the process, and each start reads the definitions again.
// What is read often is in the page cache of the system.
type bodies struct {
	// dir is empty for the system's directory of temporary files.
	dir string

	// mu guards the fields below.
	mu   sync.Mutex
	file *os.File
	end  int64
}

// Keep implements scheduler.Bodies.
func (b *bodies) Keep(body []byte) (at int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		if b.dir != "" {
			if err := os.MkdirAll(b.dir, 0o700); err != nil {
				return 0, err
			}
		}
		if b.file, err = os.CreateTemp(b.dir, "definitions-*"); err != nil {
			return 0, err
		}
		os.Remove(b.file.Name()) // it lasts until it is closed, and not beyond kill -9
	}
	if _, err := b.file.WriteAt(body, b.end); err != nil {
		return 0, err
	}
	at = b.end
	b.end += int64(len(body))
	return at, nil
}

// Read implements scheduler.Bodies.
func (b *bodies) Read(at int64, body []byte) error {
	b.mu.Lock()
	file := b.file
	b.mu.Unlock()
	if file == nil {
		return os.ErrClosed
	}
	_, err := file.ReadAt(body, at)
	return err
}

func (b *bodies) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file != nil {
		_ = b.file.Close() // there is nothing to save
		b.file = nil
	}
}
