package api

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// window is lines of a bulk submission that were looked at and sent together. The reader fills it and hands it over;
// then it is the collector's, but for what mu guards.
type window struct {
	fates []fate
	// weight is what it takes of the room of its bulk.
	weight int64
	sent   time.Time
	// answered is closed when the log has answered each record.
	answered chan struct{}

	mu sync.Mutex
	// mu guards the fields below. offsets are those of the records, noOffset where the log holds none or gave no answer.
	offsets []int64
	left    int
	err     error
}

// noOffset is in the place of an offset that there is not.
const noOffset = -1

// fate is what becomes of one line: it has a problem, or is known, or waits for a record.
type fate struct {
	line      int
	id        string
	partition int32
	known     bool
	// record is the place of its record in offsets.
	record  int
	problem *lineProblem
}

func newWindow(lines int) *window { return &window{fates: make([]fate, 0, lines)} }

func (w *window) refuse(line int, id string, p *Problem) {
	w.fates = append(w.fates, fate{line: line, id: id, problem: &lineProblem{Line: line, ID: id, Problem: *p}})
}

// expect says that n records are to be answered.
func (w *window) expect(n int) {
	w.answered, w.left, w.offsets = make(chan struct{}), n, make([]int64, n)
	for i := range w.offsets {
		w.offsets[i] = noOffset
	}
	if n == 0 {
		close(w.answered)
	}
}

// acknowledge is called by the log, once for each record.
func (w *window) acknowledge(i int, _ int32, offset int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.offsets[i] = offset
	} else if w.err == nil {
		w.err = err
	}
	if w.left--; w.left == 0 {
		close(w.answered)
	}
}

// await returns the offsets of the records, once the log has answered all of them or nobody waits any more, and with an
// error where some have none.
func (w *window) await(ctx context.Context) ([]int64, error) {
	select {
	case <-w.answered:
		return w.offsets, w.err
	default:
	}
	late := time.NewTimer(time.Until(w.sent.Add(produceTimeout)))
	defer late.Stop()
	var err error
	select {
	case <-w.answered:
		return w.offsets, w.err
	case <-late.C:
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock() // answers may still come
	defer w.mu.Unlock()
	if w.left == 0 {
		return w.offsets, w.err
	}
	return append([]int64(nil), w.offsets...), err
}

// answers encodes the answers to the lines, in their order, and counts them by status.
func (w *window) answers(dst []byte, offsets []int64, count func(status, n int)) []byte {
	var accepted, known int
	for i := range w.fates {
		f := &w.fates[i]
		switch {
		case f.problem == nil && f.known:
			known++
			dst = appendFate(dst, f, http.StatusOK, noOffset)
		case f.problem == nil && offsets[f.record] != noOffset:
			accepted++
			dst = appendFate(dst, f, http.StatusAccepted, offsets[f.record])
		default:
			if f.problem == nil {
				f.problem = &lineProblem{Line: f.line, ID: f.id, Problem: *unavailableProblem()}
			}
			count(f.problem.Status, 1)
			dst = appendLineProblem(dst, f.problem)
		}
	}
	count(http.StatusAccepted, accepted)
	count(http.StatusOK, known)
	return dst
}

// appendFate encodes a LineFate as encoding/json would.
func appendFate(dst []byte, f *fate, status int, offset int64) []byte {
	dst = strconv.AppendInt(append(dst, `{"line":`...), int64(f.line), 10)
	dst = appendText(append(dst, `,"id":`...), f.id)
	dst = strconv.AppendInt(append(dst, `,"status":`...), int64(status), 10)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(f.partition), 10)
	if offset != noOffset {
		dst = strconv.AppendInt(append(dst, `,"offset":`...), offset, 10)
	}
	return append(dst, '}', '\n')
}

func appendLineProblem(dst []byte, p *lineProblem) []byte {
	b, err := events.Marshal(p)
	if err != nil {
		panic("api: a problem does not encode: " + err.Error())
	}
	return append(append(dst, b...), '\n')
}
