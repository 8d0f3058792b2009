package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"golang.org/x/sync/semaphore"
)

// The bounds of one bulk submission. Its length has none.
const (
	// bulkWindow is how many lines may wait for their acknowledgement: enough to fill a broker's batches many times over
	// within its answer time, at a few hundred bytes each.
	bulkWindow = 4096
	// bulkBytes is how much of them is held; a submission of the largest size fits several times.
	bulkBytes = 16 << 20
	// bulkIdle ends a body of which nothing arrives.
	bulkIdle = time.Minute
	// bulkBuffer is what is read at once.
	bulkBuffer = 64 << 10
)

// LineFate is the answer to one line that was accepted.
type LineFate struct {
	Line      int    `json:"line"`
	ID        string `json:"id"`
	Status    int    `json:"status"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"offset,omitempty"`
}

// lineProblem is the answer to one line that was not.
type lineProblem struct {
	Line int    `json:"line"`
	ID   string `json:"id,omitempty"`
	Problem
}

// fate is a line on its way: answer is filled by whoever knows it first, and read by the collector, in the order of
// the lines.
type fate struct {
	line  int
	draft *draft
	sent  time.Time
	ack   chan ack
	// problem is set before the fate is handed over, or nil.
	problem *lineProblem
}

type ack struct {
	offset int64
	err    error
}

// bulk is POST /v1/tasks with one submission a line. The handler's goroutine reads and checks lines and produces
// them; a second one collects the answers in order into a spool; a third sends them. The spool is what keeps a client
// that writes its whole body before it reads anything from blocking itself: answers that it does not take wait on disk.
func (s *Server) bulk(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	// HTTP/1.1 clients get answers while they still send. A writer that cannot answers at the end.
	_ = c.EnableFullDuplex()
	// The first answer sends the headers, and not we here: a client that waits for "100 Continue" gets that by the first
	// read, and would take an early 200 for the end.
	w.Header().Set("Content-Type", contentNDJSON)
	b := &bulkRun{
		s: s, ctx: r.Context(), trace: r.Header.Get("traceparent"), room: semaphore.NewWeighted(bulkBytes),
		fates: make(chan *fate, bulkWindow), answers: newSpool(), missing: missingWorkflows{}, halt: make(chan struct{}),
	}
	var wait sync.WaitGroup
	wait.Go(b.collect)
	wait.Go(func() { b.send(w, c) })
	b.read(&idleReader{r.Body, c})
	close(b.fates)
	wait.Wait()
	_ = c.SetReadDeadline(time.Time{})
}

// bulkRun is one bulk submission.
type bulkRun struct {
	s       *Server
	ctx     context.Context
	trace   string
	room    *semaphore.Weighted
	fates   chan *fate
	answers *spool
	// missing is the reader's own.
	missing missingWorkflows

	haltOnce sync.Once
	// halt is closed when the log no longer acknowledges: further lines would only wait for the same answer.
	halt chan struct{}
}

// idleReader gives each read its own time, since a long body may well take longer than any limit for a whole one.
type idleReader struct {
	body io.Reader
	c    *http.ResponseController
}

func (r *idleReader) Read(p []byte) (int, error) {
	_ = r.c.SetReadDeadline(time.Now().Add(bulkIdle))
	return r.body.Read(p)
}

func (b *bulkRun) read(body io.Reader) {
	lines := bufio.NewReaderSize(body, bulkBuffer)
	for n := 1; ; n++ {
		data, err := readLine(lines, b.s.cfg.SubmissionBytes)
		switch {
		case errors.Is(err, errLineTooLong):
			b.refuse(n, "", tooLargeProblem(b.s.cfg.SubmissionBytes, "a submission"))
			continue
		case err != nil && !errors.Is(err, io.EOF):
			b.refuse(n, "", endProblem(err))
			return
		}
		if len(bytes.TrimSpace(data)) > 0 && !b.submit(n, data) {
			return
		}
		if err != nil {
			return
		}
	}
}

func endProblem(err error) *Problem {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem(http.StatusRequestTimeout, codeTooSlow, fmt.Sprintf("Nothing arrived for %s. This line and what follows it were not looked at.", events.Duration(bulkIdle)))
	}
	return problem(http.StatusBadRequest, codeUnreadable, "The body ended early. This line and what follows it were not looked at.")
}

var errLineTooLong = errors.New("a line is too long")

// readLine returns a line without its end, in memory of its own. With io.EOF it is the last one, perhaps empty.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit+2 { // the end of a line is not part of the submission
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			return nil, errLineTooLong
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > limit && err == nil {
			return nil, errLineTooLong
		}
		return line, err
	}
}

// submit checks a line and produces it. It returns false when no further line is to be read.
func (b *bulkRun) submit(n int, data []byte) bool {
	d, err := b.s.check(b.ctx, data, "", b.missing)
	if err != nil {
		return b.refuse(n, idOf(data), asProblem(err))
	}
	f := &fate{line: n, draft: d, ack: make(chan ack, 1), sent: time.Now()}
	if d.known {
		f.ack <- ack{offset: -1}
		return b.hand(f)
	}
	size := int64(len(data))
	if b.room.Acquire(b.ctx, size) != nil {
		return false
	}
	r := b.s.record(d, data, traceparent(b.trace))
	d.submission = nil // the record has it all
	b.s.cfg.Appender.Produce(b.ctx, r, func(_ int32, offset int64, err error) {
		b.room.Release(size)
		f.ack <- ack{offset, err}
	})
	return b.hand(f)
}

// idOf finds the ID of a line that cannot be used, so that its problem names it.
func idOf(data []byte) string {
	var of struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(data, &of) != nil || events.CheckTaskID(of.ID) != nil {
		return ""
	}
	return of.ID
}

func (b *bulkRun) refuse(n int, id string, p *Problem) bool {
	return b.hand(&fate{line: n, problem: &lineProblem{Line: n, ID: id, Problem: *p}})
}

// hand passes a fate on in its turn; it waits while the window is full.
func (b *bulkRun) hand(f *fate) bool {
	select {
	case b.fates <- f:
	case <-b.ctx.Done():
		return false
	}
	select {
	case <-b.halt:
		return false
	default:
		return true
	}
}

// collect encodes the answers in the order of the lines.
func (b *bulkRun) collect() {
	defer b.answers.end()
	for f := range b.fates {
		v := b.answer(f)
		line, err := events.Marshal(v)
		if err == nil {
			err = b.answers.add(append(line, '\n'))
		}
		if err != nil {
			b.stop(err)
		}
	}
}

// stop has no further line read. It logs once, however many lines wait for the same log.
func (b *bulkRun) stop(err error) {
	b.haltOnce.Do(func() {
		close(b.halt)
		if b.ctx.Err() == nil {
			b.s.cfg.Logger.Warn("a bulk submission was broken off", "error", err)
		}
	})
}

func (b *bulkRun) answer(f *fate) any {
	p := f.problem
	if p == nil {
		a, err := b.await(f)
		if err == nil {
			status := http.StatusAccepted
			v := LineFate{Line: f.line, ID: f.draft.id, Partition: f.draft.partition}
			if a >= 0 {
				v.Offset = &a
			} else {
				status = http.StatusOK
			}
			v.Status = status
			b.s.metrics.lines.WithLabelValues(strconv.Itoa(status)).Inc()
			return v
		}
		b.stop(err)
		p = &lineProblem{Line: f.line, ID: f.draft.id, Problem: *unavailableProblem()}
	}
	b.s.metrics.lines.WithLabelValues(strconv.Itoa(p.Status)).Inc()
	return p
}

func (b *bulkRun) await(f *fate) (int64, error) {
	select {
	case a := <-f.ack:
		return a.offset, a.err
	default:
	}
	late := time.NewTimer(time.Until(f.sent.Add(produceTimeout)))
	defer late.Stop()
	select {
	case a := <-f.ack:
		return a.offset, a.err
	case <-late.C:
		return 0, context.DeadlineExceeded
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// send gives the client what the spool has, until its end. A client that takes nothing for streamWrite is left; the
// lines that it sent are in the log all the same.
func (b *bulkRun) send(w http.ResponseWriter, c *http.ResponseController) {
	defer b.answers.close()
	for {
		chunk, more := b.answers.take()
		if len(chunk) > 0 {
			_ = c.SetWriteDeadline(time.Now().Add(bulkWrite))
			if _, err := w.Write(chunk); err != nil || c.Flush() != nil {
				return
			}
		}
		if !more {
			return
		}
	}
}

// bulkWrite is how long a client may leave its answers lying: it may first send its whole body.
const bulkWrite = 10 * time.Minute
