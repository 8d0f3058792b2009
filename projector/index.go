package projector

import (
	"bytes"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// keySet is a list of keys in one buffer, which the next task reuses.
type keySet struct {
	buf  []byte
	rows []keyEnd
}

type keyEnd struct {
	end int
	// queue is the length of the prefix under which rows are taken from the front, zero for other rows; see lowerBounds.
	queue int
}

func (s *keySet) reset() { s.buf, s.rows = s.buf[:0], s.rows[:0] }

func (s *keySet) start(i int) int {
	if i == 0 {
		return 0
	}
	return s.rows[i-1].end
}

func (s *keySet) at(i int) []byte { return s.buf[s.start(i):s.rows[i].end] }

// queue returns the prefix under which row i is taken from the front, or nil.
func (s *keySet) queue(i int) []byte {
	if s.rows[i].queue == 0 {
		return nil
	}
	return s.buf[s.start(i) : s.start(i)+s.rows[i].queue]
}

// finish ends the key that was appended to buf.
func (s *keySet) finish(queue int) { s.rows = append(s.rows, keyEnd{len(s.buf), queue}) }

// has starts looking at hint, since two sets of the same task are nearly equal.
func (s *keySet) has(key []byte, hint int) bool {
	n := len(s.rows)
	for i := range n {
		if bytes.Equal(s.at((hint+i)%n), key) {
			return true
		}
	}
	return false
}

// fill makes s the index rows that a task's keys require. nil keys require none.
func (s *keySet) fill(partition int32, id string, k *events.Keys) {
	s.reset()
	if k == nil {
		return
	}
	for _, kind := range moveKinds {
		s.add(kind, partition, id, k)
	}
}

// add appends the index rows of one kind. It is the only definition of the indexes.
func (s *keySet) add(kind move, partition int32, id string, k *events.Keys) {
	switch kind {
	case moveDue:
		if k.Due != 0 {
			s.timed(partition, rowDue, k.Due, id)
		}
	case moveWake:
		if k.Wake != 0 {
			s.timed(partition, rowWake, k.Wake, id)
		}
	case moveEnded:
		if k.Forget != 0 {
			s.timed(partition, rowForget, k.Forget, id)
		} else if k.EndedAt != 0 {
			s.timed(partition, rowEnded, k.EndedAt, id)
		}
	case moveUnplanned:
		if k.Unplanned {
			s.buf = append(appendRow(s.buf, partition, rowUnplanned), id...)
			s.finish(rowPrefix)
		}
	case moveReady:
		for i := range k.Ready {
			if !slices.Contains(k.Ready[:i], k.Ready[i]) { // SingleDelete removes only one of two writes
				s.ready(partition, id, &k.Ready[i], k.FairBy)
			}
		}
	default:
		s.list(kind, partition, id, k)
	}
}

func (s *keySet) list(kind move, partition int32, id string, k *events.Keys) {
	switch kind {
	case moveAll:
		s.buf = append(s.buf, spaceList, listAll)
	case moveState:
		s.buf = listPrefix(s.buf, listState, string(k.State))
	case moveWorkflow:
		s.buf = listPrefix(s.buf, listWorkflow, k.Workflow)
	case moveLabels:
		for key, value := range k.Labels {
			s.buf = labelPrefix(s.buf, key, value)
			s.suffix(k.SubmittedAt, id, partition)
		}
		return
	}
	s.suffix(k.SubmittedAt, id, partition)
}

func listPrefix(dst []byte, list byte, value string) []byte {
	return appendText(append(dst, spaceList, list), value)
}

func labelPrefix(dst []byte, key, value string) []byte {
	return appendText(listPrefix(dst, listLabel, key), value)
}

// suffix ends a key of a list. The partition stands last and has a fixed width, so that the ID needs no escapes and
// Reset finds the rows of its partition.
func (s *keySet) suffix(at events.Instant, id string, partition int32) {
	s.buf = appendSuffix(s.buf, at, id, partition)
	s.finish(0)
}

func appendSuffix(dst []byte, at events.Instant, id string, partition int32) []byte {
	return appendPartition(append(appendInverted(dst, int64(at)), id...), partition)
}

func (s *keySet) timed(partition int32, row byte, at events.Instant, id string) {
	s.buf = appendInt(appendRow(s.buf, partition, row), int64(at))
	s.buf = append(s.buf, id...)
	s.finish(rowPrefix)
}

func (s *keySet) ready(partition int32, id string, r *events.ReadyKey, fairBy string) {
	start := len(s.buf)
	s.buf = readyPrefix(s.buf, partition, events.Line{Queue: r.Queue(), Operation: r.Operation, FairBy: fairBy})
	prefix := len(s.buf) - start
	s.buf = appendReady(s.buf, id, r)
	s.finish(prefix)
}

// appendReady appends what follows the line in a key.
func appendReady(dst []byte, id string, r *events.ReadyKey) []byte {
	dst = appendInverted(dst, int64(r.Priority))
	dst = appendInt(dst, int64(r.Since))
	dst = appendText(dst, id)
	return appendText(dst, r.Path)
}

// readReady reads what appendReady wrote.
func readReady(rest []byte, line events.Line) (row ReadyRow, ok bool) {
	if len(rest) < 2*intSize {
		return row, false
	}
	row.Key.Agent, row.Key.Function = events.SplitQueue(line.Queue)
	row.Key.Operation = line.Operation
	row.Key.Priority = int(readInverted(rest))
	row.Key.Since = events.Instant(readInt(rest[intSize:]))
	rest = rest[2*intSize:]
	if row.Task, rest, ok = cutText(rest); !ok {
		return row, false
	}
	row.Key.Path, rest, ok = cutText(rest)
	return row, ok && len(rest) == 0
}

// readSuffix reads what suffix wrote.
func readSuffix(suffix []byte) (id string, partition int32, ok bool) {
	end := len(suffix) - partitionSize
	if end <= intSize {
		return "", 0, false
	}
	return string(suffix[intSize:end]), readPartition(suffix[end:]), true
}
