package export

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// spill keeps what belongs to tasks that are not over, such as the events of traces, in a file, in the order of the log, and so mixed. Each record names the one before it of the
// same task. So memory holds one place for each task that the log has not forgotten, however many events there are.
type spill[E any] struct {
	file *os.File
	to   *bufio.Writer
	end  int64
	// last are the latest records, by task.
	last map[string]place
}

// place is a record of the file. The zero value stands for no record.
type place struct {
	at   int64
	size int32
}

// placeBytes is how many bytes the place of the record before has at the beginning of a record.
const placeBytes = 12

func newSpill[E any](name string) (*spill[E], error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &spill[E]{file: file, to: bufio.NewWriterSize(file, 1<<20), last: map[string]place{}}, nil
}

func (s *spill[E]) add(task string, e *E) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	before := s.last[task]
	head := binary.BigEndian.AppendUint64(nil, uint64(before.at))
	head = binary.BigEndian.AppendUint32(head, uint32(before.size))
	if _, err := s.to.Write(head); err != nil {
		return err
	}
	if _, err := s.to.Write(text); err != nil {
		return err
	}
	p := place{s.end, int32(placeBytes + len(text))}
	s.last[task], s.end = p, s.end+int64(p.size)
	return nil
}

// take returns what was added for a task, the earliest first, and forgets it.
func (s *spill[E]) take(task string) ([]E, error) {
	list, err := s.read(task)
	delete(s.last, task)
	return list, err
}

// read returns what was added for a task, the earliest first.
func (s *spill[E]) read(task string) (list []E, err error) {
	if err := s.to.Flush(); err != nil {
		return nil, err
	}
	for p := s.last[task]; p.size > 0; {
		b := make([]byte, p.size)
		if _, err := s.file.ReadAt(b, p.at); err != nil {
			return nil, fmt.Errorf("read what was noted of task %s: %w", task, err)
		}
		var e E
		if err := json.Unmarshal(b[placeBytes:], &e); err != nil {
			return nil, fmt.Errorf("read what was noted of task %s: %w", task, err)
		}
		list = append(list, e)
		p = place{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
	}
	slices.Reverse(list)
	return list, nil
}

func (s *spill[E]) close() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
