package whatif

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// spill keeps the tasks of the first pass in a temporary file for each partition, so that memory holds only those that are under way.
type spill struct {
	dir   string
	files []*os.File
	to    []*bufio.Writer
	code  []*json.Encoder
}

func newSpill(below string) (*spill, error) {
	dir, err := os.MkdirTemp(below, "sagalog-whatif-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for temporary files: %w", err)
	}
	return &spill{dir: dir}, nil
}

// divide makes room for n partitions.
func (s *spill) divide(n int) {
	s.files, s.to, s.code = make([]*os.File, n), make([]*bufio.Writer, n), make([]*json.Encoder, n)
}

// add keeps a task of a partition. Different partitions may be written at once.
func (s *spill) add(partition int, t *Trace) error {
	if s.files[partition] == nil {
		f, err := os.Create(fmt.Sprintf("%s/%d", s.dir, partition))
		if err != nil {
			return err
		}
		s.files[partition], s.to[partition] = f, bufio.NewWriterSize(f, 1<<16)
		s.code[partition] = json.NewEncoder(s.to[partition])
	}
	return s.code[partition].Encode(t)
}

// each calls yield with the tasks, partition by partition, in the order in which they were added.
func (s *spill) each(yield func(*Trace) error) error {
	for i, f := range s.files {
		if f == nil {
			continue
		}
		if err := s.to[i].Flush(); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		d := json.NewDecoder(bufio.NewReaderSize(f, 1<<16))
		for {
			var t Trace
			if err := d.Decode(&t); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("read %s: %w", f.Name(), err)
			}
			if err := yield(&t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *spill) close() {
	for _, f := range s.files {
		if f != nil {
			_ = f.Close()
		}
	}
	_ = os.RemoveAll(s.dir)
}
