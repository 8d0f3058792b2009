package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// batch is a group of lines of a bulk submission that were checked and sent together. The reader fills it and hands it
// to the collector. The collector then owns everything in it, except the fields that mu guards.
type batch struct {
	lines []lineResult
	// weight is how many bytes it takes of the memory of its bulk submission.
	weight int64
	sent   time.Time
	// answered is closed when the log has answered each record.
	answered chan struct{}

	mu sync.Mutex
	// mu guards the fields below. offsets are the offsets of the records, or noOffset for a record that failed or has
	// no answer.
	offsets []int64
	left    int
	err     error
}

// noOffset stands for a missing offset.
const noOffset = -1

// lineResult is the result of one line: a problem, a known task (status 200), or a record, whose answer comes from the log.
type lineResult struct {
	answer LineAnswer
	// record is the index of its record in offsets.
	record  int
	problem *Problem
}

func newBatch(lines int) *batch { return &batch{lines: make([]lineResult, 0, lines)} }

func (b *batch) refuse(line int, id string, p *Problem) {
	b.lines = append(b.lines, lineResult{answer: LineAnswer{Line: line, ID: id}, problem: p})
}

// expect prepares the batch for the log's answers to n records.
func (b *batch) expect(n int) {
	b.answered, b.left, b.offsets = make(chan struct{}), n, make([]int64, n)
	for i := range b.offsets {
		b.offsets[i] = noOffset
	}
	if n == 0 {
		close(b.answered)
	}
}

// acknowledge is called by the log, once for each record.
func (b *batch) acknowledge(i int, _ int32, offset int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.offsets[i] = offset
	} else if b.err == nil {
		b.err = err
	}
	if b.left--; b.left == 0 {
		close(b.answered)
	}
}

// await returns the offsets of the records once the log has answered all of them, the time is up, or ctx ends. It returns an
// error if some have no offset.
func (b *batch) await(ctx context.Context) ([]int64, error) {
	late := time.NewTimer(time.Until(b.sent.Add(produceTimeout)))
	defer late.Stop()
	var err error
	select {
	case <-b.answered:
		return b.offsets, b.err
	case <-late.C:
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.mu.Lock() // answers may still come
	defer b.mu.Unlock()
	if b.left == 0 {
		return b.offsets, b.err
	}
	return append([]int64(nil), b.offsets...), err
}

// encode writes the answers to the lines, in order, and counts them by status.
func (b *batch) encode(dst *bytes.Buffer, offsets []int64, count func(status, n int)) {
	counts := map[int]int{}
	out := json.NewEncoder(dst)
	out.SetEscapeHTML(false)
	for i := range b.lines {
		l := &b.lines[i]
		if l.problem == nil && l.answer.Status == 0 {
			if l.answer.Status, l.answer.Offset = http.StatusAccepted, &offsets[l.record]; *l.answer.Offset == noOffset {
				l.problem = unavailableProblem()
			}
		}
		var answer any = &l.answer
		if l.problem != nil {
			answer, l.answer.Status = &lineProblem{Line: l.answer.Line, ID: l.answer.ID, Problem: *l.problem}, l.problem.Status
		}
		counts[l.answer.Status]++
		if err := out.Encode(answer); err != nil {
			panic("api: an answer does not encode: " + err.Error())
		}
	}
	for status, n := range counts {
		count(status, n)
	}
}
