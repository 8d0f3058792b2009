package api

import (
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
	// bulkBytes is how much of its lines is held until they are answered: enough to fill a broker's batches many times over
	// within its answer time, and a submission of the largest size fits several times.
	bulkBytes = 8 << 20
	// bulkLine is what a line takes beside its own bytes: its record's headers, and its answer.
	bulkLine = 1 << 10
	// bulkWindows is how many windows wait for their answers. A window is what arrived while the one before it was checked,
	// so few of a few lines follow each other closely.
	bulkWindows = 256
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

// bulk is POST /v1/tasks with one submission a line. The handler's goroutine reads and checks lines, window by window, and
// produces them; a second one collects the answers in order into a spool; a third sends them. The spool is what keeps a
// client that writes its whole body before it reads anything from blocking itself: answers that it does not take wait on
// disk.
func (s *Server) bulk(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	// HTTP/1.1 clients get answers while they still send. A writer that cannot answers at the end.
	_ = c.EnableFullDuplex()
	// The first answer sends the headers, and not we here: a client that waits for "100 Continue" gets that by the first
	// read, and would take an early 200 for the end.
	w.Header().Set("Content-Type", contentNDJSON)
	b := &bulkRun{
		s: s, ctx: r.Context(), trace: r.Header.Get("traceparent"), room: semaphore.NewWeighted(bulkBytes),
		windows: make(chan *window, bulkWindows), answers: newSpool(), missing: missingWorkflows{}, ids: map[string]struct{}{}, halt: make(chan struct{}),
	}
	var wait sync.WaitGroup
	wait.Go(b.collect)
	wait.Go(func() { b.send(w, c) })
	b.read(&idleReader{r.Body, c})
	close(b.windows)
	wait.Wait()
	_ = c.SetReadDeadline(time.Time{})
}

// bulkRun is one bulk submission.
type bulkRun struct {
	s     *Server
	ctx   context.Context
	trace string
	// room has bulkBytes; who hands a window over takes its weight, and it comes back with the answers.
	room    *semaphore.Weighted
	windows chan *window
	answers *spool
	// The reader's own: open is the window that it fills, drafts is what is to be sent of it, ids is whose.
	open    *window
	drafts  []draft
	ids     map[string]struct{}
	missing missingWorkflows
	// records is room that is used again.
	records []events.Record

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
	in := newLines(body, b.s.cfg.SubmissionBytes)
	var list []line
	for n := 0; ; {
		var err error
		list, err = in.next(list[:0])
		b.open = newWindow(len(list) + 1)
		for i := range list {
			n++
			if !b.look(n, &list[i]) {
				return
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			b.open.refuse(n+1, "", endProblem(err))
		}
		if !b.submit() || err != nil {
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

// look checks a line. What is to be sent of it waits in drafts. It returns false when no further line is to be read.
func (b *bulkRun) look(n int, l *line) bool {
	b.open.weight += int64(len(l.data)) + bulkLine
	switch {
	case l.tooLong:
		b.open.refuse(n, "", tooLargeProblem(b.s.cfg.SubmissionBytes, "a submission"))
		return true
	case len(bytes.TrimSpace(l.data)) == 0:
		return true
	}
	b.drafts = append(b.drafts, draft{data: l.data})
	last := len(b.drafts) - 1
	d := &b.drafts[last]
	err := b.s.check(b.ctx, d, b.missing)
	if _, twice := b.ids[d.id]; twice && err == nil {
		return b.lookAgain(n, *d)
	}
	b.take(n, err)
	return true
}

// lookAgain looks a task up that an earlier line of the window submitted: it may be known once that was sent.
func (b *bulkRun) lookAgain(n int, d draft) bool {
	b.drafts = b.drafts[:len(b.drafts)-1]
	if !b.submit() {
		return false
	}
	b.open = newWindow(1)
	b.open.weight += int64(len(d.data)) + bulkLine
	b.drafts = append(b.drafts, d)
	b.take(n, b.s.checkConflict(b.ctx, &b.drafts[0]))
	return true
}

// take gives the last draft its fate: err is what its check found.
func (b *bulkRun) take(n int, err error) {
	last := len(b.drafts) - 1
	d := &b.drafts[last]
	switch {
	case err != nil:
		b.open.refuse(n, idOf(d.data), asProblem(err))
		b.drafts = b.drafts[:last]
	case d.known:
		b.open.fates = append(b.open.fates, fate{line: n, id: d.id, partition: d.partition, known: true})
		b.drafts = b.drafts[:last]
	default:
		b.open.fates = append(b.open.fates, fate{line: n, id: d.id, partition: d.partition, record: last})
		b.ids[d.id] = struct{}{}
	}
}

// submit sends what is open and hands it over, as soon as there is room. It returns false when no further line is to be
// read.
func (b *bulkRun) submit() bool {
	w := b.open
	if len(w.fates) == 0 {
		return true
	}
	w.weight = min(w.weight, bulkBytes)
	if b.room.Acquire(b.ctx, w.weight) != nil {
		return false
	}
	w.sent = time.Now()
	w.expect(len(b.drafts))
	b.produce(w)
	b.windows <- w // the collector takes them for as long as we are here
	select {
	case <-b.halt:
		return false
	default:
		return true
	}
}

func (b *bulkRun) produce(w *window) {
	if len(b.drafts) == 0 {
		return
	}
	ids := 0
	for i := range b.drafts {
		ids += len(b.drafts[i].id)
	}
	out := b.s.newWriter(b.trace, len(b.drafts), ids)
	for i := range b.drafts {
		b.records = append(b.records, out.record(&b.drafts[i]))
	}
	b.s.cfg.Appender.ProduceBatch(b.ctx, b.records, w.acknowledge)
	clear(b.drafts) // what they hold is the window's alone
	clear(b.records)
	clear(b.ids)
	b.drafts, b.records = b.drafts[:0], b.records[:0]
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

// collect encodes the answers in the order of the lines.
func (b *bulkRun) collect() {
	defer b.answers.end()
	var out []byte
	for w := range b.windows {
		offsets, err := w.await(b.ctx)
		if err != nil {
			b.stop(err)
		}
		out = w.answers(out[:0], offsets, b.count)
		b.room.Release(w.weight)
		if err := b.answers.add(out); err != nil {
			b.stop(err)
		}
	}
}

func (b *bulkRun) count(status, n int) {
	if n > 0 {
		b.s.metrics.lines.WithLabelValues(strconv.Itoa(status)).Add(float64(n))
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
