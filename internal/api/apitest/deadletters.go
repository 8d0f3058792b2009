package apitest

import (
	"context"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// deadAt is a partition of a dead-letter topic.
type deadAt struct {
	in        events.Input
	partition int32
}

// deadState says what is to happen to reads of dead letters, and what was done about them.
type deadState struct {
	cut     map[deadAt]bool
	cutNext bool
	marks   map[string]*api.DeadLetterMark
	// read counts the dead letters that were read.
	read int
}

// LettersRead returns how many dead letters were read.
func (e *Engine) LettersRead() int { e.mu.Lock(); defer e.mu.Unlock(); return e.read }

// Cut silences the brokers of these partitions of a dead-letter topic, and makes all others answer.
func (e *Engine) Cut(in events.Input, partitions ...int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cut = map[deadAt]bool{}
	for _, p := range partitions {
		e.cut[deadAt{in, p}] = true
	}
}

// CutNext silences the brokers of the partition that is read next.
func (e *Engine) CutNext() { e.mu.Lock(); e.cutNext = true; e.mu.Unlock() }

// LetterMark implements api.DeadLetters.
func (e *Engine) LetterMark(letter string, _ events.Instant) *api.DeadLetterMark {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.marks[letter]
}

// MarkLetter implements api.DeadLetters.
func (e *Engine) MarkLetter(_ context.Context, m events.DeadLetterMark) error {
	if err := e.asked(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.marks == nil {
		e.marks = map[string]*api.DeadLetterMark{}
	}
	if m.Mark == "" {
		delete(e.marks, m.Letter)
		return nil
	}
	mark := &api.DeadLetterMark{Mark: m.Mark, At: 1, By: m.By, Reason: m.Reason, Task: m.Task}
	if m.Task != "" && m.Offset >= 0 {
		mark.Partition, mark.Offset = &m.Partition, &m.Offset
	}
	e.marks[m.Letter] = mark
	return nil
}

// Ranges implements api.DeadLetters.
func (e *Engine) Ranges(context.Context) ([]api.DeadRange, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []api.DeadRange
	for _, in := range []events.Input{events.Submissions, events.Reports} {
		for p := range Partitions {
			if e.cut[deadAt{in, int32(p)}] {
				continue
			}
			list = append(list, api.DeadRange{Input: in, Partition: int32(p), End: int64(len(e.dead[in][p]))})
		}
	}
	return list, nil
}

// Read implements api.DeadLetters.
func (e *Engine) Read(_ context.Context, in events.Input, partition int32, from, to int64) ([]events.Record, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cut[deadAt{in, partition}] {
		return nil, api.ErrNoAnswer
	}
	list := e.dead[in][partition]
	if e.cutNext { // after the ranges were requested
		e.cut[deadAt{in, partition}], e.cutNext = true, false
		return nil, api.ErrNoAnswer
	}
	to = min(to, int64(len(list)))
	if from >= to {
		return nil, nil
	}
	e.read += int(to - from)
	return slices.Clone(list[from:to]), nil
}
