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

// spill keeps the events of the traces that are not over in a file, in the order of the log, and so mixed. Each record names the one before it of the
// same task. So memory holds one place for each task that the log has not forgotten, however many events there are.
type spill struct {
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

func newSpill(name string) (*spill, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &spill{file: file, to: bufio.NewWriterSize(file, 1<<20), last: map[string]place{}}, nil
}

func (s *spill) add(task string, e *event) error {
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

// take returns the events of a task, the earliest first, and forgets them.
func (s *spill) take(task string) (list []event, err error) {
	if err := s.to.Flush(); err != nil {
		return nil, err
	}
	for p := s.last[task]; p.size > 0; {
		b := make([]byte, p.size)
		if _, err := s.file.ReadAt(b, p.at); err != nil {
			return nil, fmt.Errorf("read the events of task %s: %w", task, err)
		}
		var e event
		if err := json.Unmarshal(b[placeBytes:], &e); err != nil {
			return nil, fmt.Errorf("read the events of task %s: %w", task, err)
		}
		list = append(list, e)
		p = place{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
	}
	delete(s.last, task)
	slices.Reverse(list)
	return list, nil
}

func (s *spill) close() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
