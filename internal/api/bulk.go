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
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"golang.org/x/sync/semaphore"
)

// The bounds of one bulk submission. Its length is unbounded.
const (
	// bulkBytes is how many bytes of its lines are in memory until they are answered: enough to fill many of a broker's batches
	// within its answer time, and room for several submissions of the largest size.
	bulkBytes = 8 << 20
	// bulkLine is the memory that a line takes besides its bytes: its record's headers and its answer.
	bulkLine = 1 << 10
	// bulkBatches is how many batches wait for their answers. A batch holds the lines that arrived while the previous batch was
	// checked, so small batches rarely follow one another closely.
	bulkBatches = 256
	// bulkIdle is how long a client may send nothing before the rest of its body is refused.
	bulkIdle = time.Minute
	// bulkBuffer is how much is read at once.
	bulkBuffer = 64 << 10
)

// LineAnswer is the answer to one line that was accepted.
type LineAnswer struct {
	Line      int    `json:"line"`
	ID        string `json:"id"`
	Status    int    `json:"status"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"offset,omitempty"`
}

// lineProblem is the answer to one line that was not accepted.
type lineProblem struct {
	Line int    `json:"line"`
	ID   string `json:"id,omitempty"`
	Problem
}

// bulk is POST /v1/tasks with one submission per line. The handler's goroutine reads and checks lines, batch by batch,
// and produces them; a second one collects the answers in order into a diskQueue; a third sends them. A client that writes its
// whole body before it reads any answer would block itself, so unread answers wait on disk, up to queueDisk. Beyond that, its
// body waits too.
func (s *submissions) bulk(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	// HTTP/1.1 clients get answers while they are still sending. A writer that cannot do that answers at the end.
	_ = c.EnableFullDuplex()
	// The headers are sent with the first answer and not here: a client that waits for "100 Continue" gets it from the first
	// read, and would take an early 200 for the end.
	w.Header().Set("Content-Type", contentNDJSON)
	b := &bulkRun{
		s: s, ctx: r.Context(), trace: r.Header.Get("traceparent"), room: semaphore.NewWeighted(bulkBytes),
		batches: make(chan *batch, bulkBatches), answers: newDiskQueue(r.Context(), s.disk), missing: missingWorkflows{}, ids: map[string]struct{}{},
	}
	var wait sync.WaitGroup
	wait.Go(b.collect)
	wait.Go(func() { b.send(w, c) })
	stop := context.AfterFunc(r.Context(), func() { _ = c.SetReadDeadline(time.Now()) }) // the caller has gone, or its token is no longer valid
	b.read(&idleReader{r.Context(), r.Body, c})
	stop()
	close(b.batches)
	wait.Wait()
	_ = c.SetReadDeadline(time.Time{})
}

// bulkRun is one bulk submission.
type bulkRun struct {
	s     *submissions
	ctx   context.Context
	trace string
	// room is a semaphore of bulkBytes. A batch holds its weight until it is answered.
	room    *semaphore.Weighted
	batches chan *batch
	answers *diskQueue
	// The reader owns the fields below. open is the batch that it fills, drafts are the submissions of that batch that
	// must be sent, and ids are their IDs.
	open    *batch
	drafts  []draft
	ids     map[string]struct{}
	missing missingWorkflows
	// records is a buffer that is reused.
	records []events.Record

	// halted is set when the log no longer acknowledges: further lines would only wait in vain.
	halted atomic.Bool
}

// idleReader gives each read a time limit, because a long body may take longer than any limit for a whole
// body.
type idleReader struct {
	ctx  context.Context
	body io.Reader
	c    *http.ResponseController
}

func (r *idleReader) Read(p []byte) (int, error) {
	_ = r.c.SetReadDeadline(time.Now().Add(bulkIdle))
	if err := r.ctx.Err(); err != nil { // it may have ended before the line above
		return 0, err
	}
	n, err := r.body.Read(p)
	if err != nil && r.ctx.Err() != nil {
		err = r.ctx.Err()
	}
	return n, err
}

func (b *bulkRun) read(body io.Reader) {
	in := newLines(body, b.s.limit())
	var list []line
	for n := 0; ; {
		var err error
		list, err = in.next(list[:0])
		b.open = newBatch(len(list) + 1)
		b.missing.nextBatch()
		drafts, faults := b.contents(list)
		for i := range list {
			n++
			if !b.check(n, &list[i], &drafts[i], faults[i]) {
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
		return problem(http.StatusRequestTimeout, codeTooSlow, fmt.Sprintf("Nothing arrived for %s. This line and those after it were not read.", events.Duration(bulkIdle)))
	}
	return problem(http.StatusBadRequest, codeUnreadable, "The body ended early. This line and those after it were not read.")
}

// contents checks the content of lines, and makes the keys that they need.
func (b *bulkRun) contents(list []line) (drafts []draft, faults []error) {
	drafts, faults = make([]draft, len(list)), make([]error, len(list))
	for i := range list {
		if l := &list[i]; !l.tooLong && len(bytes.TrimSpace(l.data)) > 0 {
			drafts[i].data = l.data
			faults[i] = b.s.checkContent(b.ctx, &drafts[i], b.missing)
		}
	}
	b.s.prepareKeys(b.ctx, drafts)
	return drafts, faults
}

// check checks a line. A submission that must be sent goes to drafts. check returns false when no further line
// should be read. checked is the draft of the line, and err the result of its check.
func (b *bulkRun) check(n int, l *line, checked *draft, err error) bool {
	b.open.weight += int64(len(l.data)) + bulkLine
	switch {
	case l.tooLong:
		b.open.refuse(n, "", tooLargeProblem(b.s.limit(), aSubmission))
		return true
	case len(bytes.TrimSpace(l.data)) == 0:
		return true
	}
	b.drafts = append(b.drafts, *checked)
	last := len(b.drafts) - 1
	d := &b.drafts[last]
	if err == nil {
		err = b.s.finish(b.ctx, d)
	}
	if _, twice := b.ids[d.id]; twice && err == nil {
		return b.checkRepeat(n, *d)
	}
	b.record(n, err)
	return true
}

// checkRepeat checks a task that an earlier line of the batch submitted. The task may be known once that line has
// been sent.
func (b *bulkRun) checkRepeat(n int, d draft) bool {
	b.drafts = b.drafts[:len(b.drafts)-1]
	if !b.submit() {
		return false
	}
	b.open = newBatch(1)
	b.open.weight += int64(len(d.data)) + bulkLine
	b.drafts = append(b.drafts, d)
	b.record(n, b.s.checkConflict(b.ctx, &b.drafts[0]))
	return true
}

// record adds the result of the last draft to the batch; err is what its check found.
func (b *bulkRun) record(n int, err error) {
	last := len(b.drafts) - 1
	d := &b.drafts[last]
	l := lineResult{answer: LineAnswer{Line: n, ID: d.id, Partition: d.partition}, record: last}
	switch {
	case err != nil:
		b.open.refuse(n, idOf(d.data), asProblem(err))
		b.drafts = b.drafts[:last]
		return
	case d.known:
		l.answer.Status = http.StatusOK
		b.drafts = b.drafts[:last]
	default:
		b.ids[d.id] = struct{}{}
	}
	b.open.lines = append(b.open.lines, l)
}

// submit sends the open batch and hands it over, as soon as there is room. It returns false when no further line
// should be read.
func (b *bulkRun) submit() bool {
	w := b.open
	if len(w.lines) == 0 {
		return true
	}
	w.weight = min(w.weight, bulkBytes)
	if b.room.Acquire(b.ctx, w.weight) != nil {
		return false
	}
	w.sent = time.Now()
	w.expect(len(b.drafts))
	b.produce(w)
	b.batches <- w // the collector receives until the channel is closed
	return !b.halted.Load()
}

func (b *bulkRun) produce(w *batch) {
	if len(b.drafts) == 0 {
		return
	}
	h, acknowledge := b.s.header(b.trace), w.acknowledge
	if b.s.traces != nil {
		acknowledge = b.tracedLines(h, acknowledge)
	} else {
		for i := range b.drafts {
			b.records = append(b.records, b.s.record(&b.drafts[i], h))
		}
	}
	b.s.producer.appender.ProduceBatch(b.ctx, b.records, acknowledge)
	clear(b.drafts) // the log owns their contents
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
	var out bytes.Buffer
	for w := range b.batches {
		offsets, err := w.await(b.ctx)
		if err != nil {
			b.stop(err)
		}
		out.Reset()
		w.encode(&out, offsets, b.count)
		// The batch keeps its room until its answers have theirs: a client that reads none is read no further.
		if err := b.answers.add(out.Bytes()); err != nil {
			b.stop(err)
		}
		b.room.Release(w.weight)
	}
}

func (b *bulkRun) count(status, n int) {
	b.s.lines.WithLabelValues(strconv.Itoa(status)).Add(float64(n))
}

// stop ends the reading of lines. It logs once, however many lines wait for the log.
func (b *bulkRun) stop(err error) {
	if !b.halted.Swap(true) && b.ctx.Err() == nil {
		b.s.log.Warn("a bulk submission was cut short", "error", err)
	}
}

// send sends the client all answers. It gives up on a client that reads nothing for bulkWrite; the lines that the client sent are
// in the log anyway.
func (b *bulkRun) send(w http.ResponseWriter, c *http.ResponseController) {
	defer b.answers.close()
	for {
		chunk, more := b.answers.next()
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

// bulkWrite is how long a client may leave its answers unread: it may first send its whole body.
const bulkWrite = 10 * time.Minute
