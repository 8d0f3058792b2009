package cli

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
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// The bounds of one request of a bulk submission: large enough that the cost of a request does not matter, small enough that
// a broken connection repeats little.
const (
	chunkLines = 2000
	chunkBytes = 4 << 20
	// maxLine is above the limit of any engine; the engine refuses a line that is too large for it, with a reason.
	maxLine = 4 << 20
)

// line is one submission being sent.
type line struct {
	number int
	id     string
	data   []byte
	// result is set when its answer is final.
	result json.RawMessage
}

// lineResult is the API's answer to a line.
type lineResult struct {
	Problem
	Line      int    `json:"line"`
	ID        string `json:"id"`
	Status    int    `json:"status"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"offset"`
}

// tally counts results.
type tally struct{ accepted, known, conflicts, failed int }

// bulkRun is one bulk submission.
type bulkRun struct {
	*session
	tally
	progress *progress
	printed  []json.RawMessage
	patience time.Duration
}

// submitFrom sends the lines of a file in chunks and reports the result of each. Lines of a slow source, such as a pipe, are
// sent as they arrive.
func (s *session) submitFrom(name string) error {
	in, size := s.cmd.InOrStdin(), int64(0)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open the submissions: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = f
	}
	b := &bulkRun{session: s, progress: newProgress(s.err, size)}
	defer b.progress.abort()
	b.patience, _ = s.cmd.Flags().GetDuration("retry-for")
	ctx, cancel := context.WithCancel(s.cmd.Context())
	defer cancel()
	lines, readErr := readLines(ctx, in)
	for {
		chunk, open := collect(ctx, lines)
		if err := b.send(ctx, chunk); err != nil {
			return err
		}
		if !open {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.progress.done()
	if err := *readErr; err != nil {
		return fmt.Errorf("read the submissions: %w", err)
	}
	return b.report()
}

// readLines reads ahead of the sender. The error may be read only once the channel is closed. A read of stdin cannot be
// interrupted: its goroutine ends with the process, or with the next line.
func readLines(ctx context.Context, in io.Reader) (<-chan *line, *error) {
	out, failed := make(chan *line, chunkLines), new(error)
	go func() {
		defer close(out)
		r := bufio.NewReaderSize(in, 64<<10)
		for n := 1; ; n++ {
			data, err := readLine(r)
			if len(bytes.TrimSpace(data)) > 0 {
				select {
				case out <- identified(n, bytes.TrimSpace(data)):
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					*failed = fmt.Errorf("line %d: %w", n, err)
				}
				return
			}
		}
	}()
	return out, failed
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var data []byte
	for {
		part, err := r.ReadSlice('\n')
		data = append(data, part...)
		if len(data) > maxLine {
			return nil, fmt.Errorf("is longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return data, err
		}
	}
}

// identified adds an ID to a line without one, so that the line can be sent again.
func identified(n int, data []byte) *line {
	l := &line{number: n, data: data}
	var of struct {
		ID *string `json:"id"`
	}
	if json.Unmarshal(data, &of) != nil || data[0] != '{' {
		return l // the engine will report the error in it
	}
	if of.ID != nil {
		l.id = *of.ID
		return l
	}
	l.id = uuid.Must(uuid.NewV7()).String()
	rest := bytes.TrimSpace(data[1:])
	separator := ","
	if rest[0] == '}' {
		separator = ""
	}
	l.data = append([]byte(`{"id":"`+l.id+`"`+separator), rest...)
	return l
}

// collect returns the lines that have arrived, at least one unless the source has ended.
func collect(ctx context.Context, lines <-chan *line) (chunk []*line, open bool) {
	size := 0
	add := func(l *line) {
		chunk = append(chunk, l)
		size += len(l.data)
	}
	select {
	case l, ok := <-lines:
		if !ok {
			return nil, false
		}
		add(l)
	case <-ctx.Done():
		return nil, false
	}
	for len(chunk) < chunkLines && size < chunkBytes {
		select {
		case l, ok := <-lines:
			if !ok {
				return chunk, false
			}
			add(l)
		default:
			return chunk, true
		}
	}
	return chunk, true
}

// send submits a chunk until each line has a final answer, or until nothing has got through for as long as --retry-for.
func (b *bulkRun) send(ctx context.Context, chunk []*line) error {
	retry, since := backoff{}, time.Now()
	for len(chunk) > 0 {
		left, err := b.try(ctx, chunk)
		if len(left) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(left) < len(chunk) {
			retry.reset()
			since = time.Now()
		}
		if err == nil {
			err = errors.New("the engine did not answer every line")
		}
		if !isPassing(err) {
			return err
		}
		if waited := time.Since(since); waited > b.patience || (waited > neverPatience && b.neverReached(err)) {
			return fmt.Errorf("gave up at line %d, with %s in the log: %w", left[0].number, Counted(b.accepted+b.known, "submission"), err)
		}
		b.progress.waiting(err)
		chunk = left
		if err := retry.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// neverPatience is how long to wait for an engine that has never answered. It may be restarting, but usually no engine is
// running.
const neverPatience = 3 * time.Second

// neverReached reports that nothing has answered so far.
func (b *bulkRun) neverReached(err error) bool {
	_, ok := errors.AsType[*unreachable](err)
	return ok && b.tally == tally{}
}

// try makes one request and returns the lines that still have no final answer.
func (b *bulkRun) try(ctx context.Context, chunk []*line) ([]*line, error) {
	var body bytes.Buffer
	for _, l := range chunk {
		body.Write(l.data)
		body.WriteByte('\n')
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := b.caller.send(ctx, request{method: http.MethodPost, path: "/v1/tasks", body: body.Bytes(), content: "application/x-ndjson"})
	if err != nil {
		return chunk, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		doc, _ := io.ReadAll(resp.Body)
		return chunk, problemOf(resp, doc)
	}
	var last error
	answers := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		doc, err := answers.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				last = err
			}
			break
		}
		if err := b.record(chunk, doc); err != nil {
			last = err
		}
	}
	var left []*line
	for _, l := range chunk {
		if l.result == nil {
			left = append(left, l)
		}
	}
	return left, last
}

// record notes the result of one line. A passing failure is returned and leaves the line open.
func (b *bulkRun) record(chunk []*line, doc []byte) error {
	var f lineResult
	if err := json.Unmarshal(doc, &f); err != nil || f.Line < 1 || f.Line > len(chunk) {
		return errors.New("the engine's answer is not as expected")
	}
	f.Problem.Status = f.Status
	if f.Status >= 400 && isPassing(&f.Problem) {
		return &f.Problem
	}
	l := chunk[f.Line-1]
	if l.result != nil {
		return nil
	}
	l.result = renumbered(doc, l.number)
	b.progress.add(len(l.data) + 1)
	return b.book(l, &f)
}

func (b *bulkRun) book(l *line, f *lineResult) error {
	switch {
	case f.Status == http.StatusAccepted:
		b.accepted++
	case f.Status < 300:
		b.known++
	default:
		if f.Status == http.StatusConflict {
			b.conflicts++
		} else {
			b.failed++
		}
		b.progress.print(fmt.Sprintf("line %d%s: %d %s", l.number, named(l.id), f.Status, Printable(oneLine(&f.Problem))))
	}
	switch b.format {
	case formatJSONL:
		return b.printer.line(l.result)
	case formatJSON:
		b.printed = append(b.printed, l.result)
	}
	return nil
}

func named(id string) string {
	if id == "" {
		return ""
	}
	return " (" + Printable(id) + ")"
}

func oneLine(p *Problem) string {
	if len(p.Errors) == 0 {
		return p.Detail
	}
	texts := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		if texts[i] = placed(e); e.Line > 0 { // the body is one line
			texts[i] = fmt.Sprintf("%s Column %d: %s", p.Detail, e.Column, e.Message)
		}
	}
	return strings.Join(texts, "; ")
}

// renumbered replaces the line number within the request by the one within the file.
func renumbered(doc []byte, number int) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(doc, &m) != nil {
		return bytes.TrimSpace(doc)
	}
	m["line"] = json.RawMessage(fmt.Sprint(number))
	out, err := events.Marshal(m)
	if err != nil {
		return bytes.TrimSpace(doc)
	}
	return out
}

// report prints the totals. Its error carries the exit code.
func (b *bulkRun) report() error {
	switch b.format {
	case formatJSON:
		if err := b.list(b.printed, listing{}); err != nil {
			return err
		}
	case formatTable:
		t := b.tally
		err := table(b.out, row{"ACCEPTED", "KNOWN", "CONFLICTS", "FAILED"}, []row{{
			fmt.Sprint(t.accepted), fmt.Sprint(t.known), fmt.Sprint(t.conflicts), fmt.Sprint(t.failed)}})
		if err != nil {
			return err
		}
	}
	switch {
	case b.failed > 0:
		return exit(ExitError, "%s failed, %d of them as conflicts", Counted(b.failed+b.conflicts, "line"), b.conflicts)
	case b.conflicts > 0:
		return exit(ExitConflict, "%d lines conflict with an earlier submission of their ID", b.conflicts)
	}
	return nil
}
