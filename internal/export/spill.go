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
// same task. The file has no name: it lasts until it is closed, and not beyond kill -9.
type spill[E any] struct {
	file *os.File
	to   *bufio.Writer
	end  int64
	// last are the latest records, by task.
	last *shelf[place]
}

// place is a record of the file. The zero value stands for no record.
type place struct {
	at   int64
	size int32
}

// placeBytes is how many bytes the place of the record before has at the beginning of a record.
const placeBytes = 12

// newSpill makes an empty spill. name says what it is for.
func newSpill[E any](in room, name string) (*spill[E], error) {
	file, err := nameless(in.dir, "."+name+"-")
	if err != nil {
		return nil, err
	}
	return &spill[E]{file: file, to: bufio.NewWriterSize(file, 1<<20), last: newShelf[place](in, name)}, nil
}

func (s *spill[E]) add(task string, e *E) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	key := keyOf(task)
	before, _, err := s.last.look(key)
	if err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint64(nil, uint64(before.at))
	head = binary.BigEndian.AppendUint32(head, uint32(before.size))
	if _, err := s.to.Write(head); err != nil {
		return err
	}
	if _, err := s.to.Write(text); err != nil {
		return err
	}
	p := place{s.end, int32(placeBytes + len(text))}
	s.end += int64(p.size)
	return s.last.put(key, p)
}

// take returns what was added for a task, the earliest first, and forgets it.
func (s *spill[E]) take(task string) ([]E, error) {
	list, err := s.read(task)
	return list, errors.Join(err, s.forget(task))
}

func (s *spill[E]) forget(task string) error { return s.last.drop(keyOf(task)) }

// read returns what was added for a task, the earliest first.
func (s *spill[E]) read(task string) (list []E, err error) {
	if err := s.to.Flush(); err != nil {
		return nil, err
	}
	p, _, err := s.last.look(keyOf(task))
	if err != nil {
		return nil, err
	}
	for p.size > 0 {
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
	return errors.Join(s.file.Close(), s.last.close())
}
