package api

import (
	"fmt"
	"os"
	"sync"
)

const (
	// spoolMemory is what a spool holds before it goes to disk: some ten thousand answers.
	spoolMemory = 1 << 20
	// spoolChunk is what it gives at once.
	spoolChunk = 64 << 10
)

// spool is a queue of bytes between one writer, which never waits, and one reader. What does not fit into its memory
// waits in a temporary file.
//
// Invariant: what the file holds is newer than what is in memory; so memory is taken first, and additions go to the
// file until it is empty.
type spool struct {
	mu sync.Mutex
	// mu guards the fields below.
	added  *sync.Cond
	memory []byte
	file   *os.File
	// read and written are positions in the file.
	read, written int64
	ended         bool
	closed        bool
	err           error
}

func newSpool() *spool {
	s := &spool{}
	s.added = sync.NewCond(&s.mu)
	return s
}

// add appends b. After close it does nothing.
func (s *spool) add(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.added.Signal()
	switch {
	case s.closed:
		return nil
	case s.err != nil:
		return s.err
	case s.read == s.written && len(s.memory)+len(b) <= spoolMemory:
		s.memory = append(s.memory, b...)
		return nil
	}
	if s.err = s.spill(b); s.err != nil {
		return s.err
	}
	return nil
}

func (s *spool) spill(b []byte) error {
	if s.file == nil {
		f, err := os.CreateTemp("", "sagalog-bulk-*")
		if err != nil {
			return fmt.Errorf("open a spool: %w", err)
		}
		s.file = f
		os.Remove(f.Name()) // it lives as long as it is open, also through kill -9
	}
	if _, err := s.file.WriteAt(b, s.written); err != nil {
		return fmt.Errorf("write a spool: %w", err)
	}
	s.written += int64(len(b))
	return nil
}

// end says that nothing will be added any more.
func (s *spool) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.added.Signal()
}

// take waits for bytes and returns them; more is false when they are the last.
func (s *spool) take() (b []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.memory) == 0 && s.read == s.written && !s.ended {
		s.added.Wait()
	}
	if len(s.memory) > 0 {
		b, s.memory = s.memory, nil
		return b, true
	}
	if s.read == s.written {
		return nil, false
	}
	b = make([]byte, min(spoolChunk, s.written-s.read))
	n, err := s.file.ReadAt(b, s.read)
	if n < len(b) {
		s.err = fmt.Errorf("read a spool: %w", err)
		return nil, false
	}
	if s.read += int64(n); s.read == s.written {
		s.read, s.written = 0, 0
	}
	return b, true
}

// close lets the file go.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.memory, s.read, s.written = true, nil, 0, 0
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}
