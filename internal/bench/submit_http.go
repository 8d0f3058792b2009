package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// sender submits by HTTP. It writes HTTP/1.1 itself: the load is part of the measured CPU, and the client of the standard library
// costs as much as the server.
type sender struct {
	load     *load
	addr     string
	stop     <-chan struct{}
	schedule *schedule
}

// schedule gives the connections of a run the times at which submissions are due, in order.
type schedule struct {
	load  *load
	begin int64
	every float64
	count atomic.Int64
}

func newSchedule(l *load, rate float64) *schedule {
	p := &schedule{load: l, begin: l.now()}
	if rate > 0 {
		p.every = float64(time.Second) / rate
	}
	return p
}

// next returns when the next submission is due. Without a rate that is now.
func (p *schedule) next() int64 {
	if p.every == 0 {
		return p.load.now()
	}
	return p.begin + int64(float64(p.count.Add(1)-1)*p.every)
}

// wait sleeps until due, and returns false when stop was closed.
func (s *sender) wait(due int64) bool {
	if isClosed(s.stop) {
		return false
	}
	d := time.Duration(due - s.load.now())
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return false
	case <-timer.C:
		return true
	}
}

func (s *sender) dial(ctx context.Context) (net.Conn, func() bool, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, nil, err
	}
	return conn, context.AfterFunc(ctx, func() { _ = conn.Close() }), nil
}

// oneByOne is a connection with one submission at a time.
func (s *sender) oneByOne(ctx context.Context) error {
	conn, release, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { release(); _ = conn.Close() }()
	in := bufio.NewReaderSize(conn, 4<<10)
	var out []byte
	for !s.load.full() {
		due := s.schedule.next()
		if !s.wait(due) {
			return nil
		}
		task := s.load.number(due)
		out = s.appendPut(out[:0], task)
		sent := s.load.now()
		_, err := conn.Write(out)
		if err == nil {
			err = readAnswer(in)
		}
		s.load.answered(answer{task: task, due: due, sent: sent, err: err})
		if _, refused := errors.AsType[*refusedError](err); err != nil && !refused {
			return nil // counted as a submission without an answer
		}
	}
	return nil
}

func (s *sender) appendPut(dst []byte, task int) []byte {
	dst = append(dst, "PUT /v1/tasks/"...)
	dst = s.load.names.append(dst, task)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, s.addr...)
	dst = append(dst, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(submission)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, submission...)
}

// refusedError is an answer that is not a success. The connection stays usable.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// readAnswer reads one response.
func readAnswer(in *bufio.Reader) error {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusAccepted {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return &refusedError{resp.Status + ": " + string(body)}
}

// linesAhead is the number of unanswered lines of a body: enough to keep the server busy. The server bounds their bytes.
const linesAhead = 2048

// lines uses a connection with one long body, with a submission in each line. Answers come while the body is still being sent.
func (s *sender) lines(ctx context.Context) error {
	conn, release, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { release(); _ = conn.Close() }()
	waiting := make(chan answer, linesAhead)
	// gone is closed when no more answers will be read.
	gone, read := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(gone)
		read <- s.readLines(conn, waiting)
	}()
	err = s.writeLines(conn, waiting, gone)
	close(waiting)
	<-gone
	for a := range waiting { // answers that the reader did not reach
		a.err = errors.New("the connection ended before the answer")
		s.load.answered(a)
	}
	return errors.Join(err, <-read)
}

// writeLines sends lines as they fall due. Lines that are due together go in one chunk.
func (s *sender) writeLines(conn net.Conn, waiting chan<- answer, gone <-chan struct{}) error {
	head := "POST /v1/tasks HTTP/1.1\r\nHost: " + s.addr + "\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		return err
	}
	var body []byte
	flush := func() error {
		if len(body) == 0 {
			return nil
		}
		chunk := net.Buffers{[]byte(strconv.FormatInt(int64(len(body)), 16) + "\r\n"), body, []byte("\r\n")}
		_, err := chunk.WriteTo(conn)
		body = body[:0]
		return err
	}
	for !s.load.full() {
		due := s.schedule.next()
		if due > s.load.now() || len(body) > 32<<10 || len(waiting) == cap(waiting) {
			if err := flush(); err != nil {
				return nil // the missing answers show it
			}
		}
		if !s.wait(due) {
			break
		}
		task := s.load.number(due)
		a := answer{task: task, due: due, sent: s.load.now()}
		select {
		case waiting <- a:
		case <-gone:
			a.err = errors.New("the connection ended before the submission was sent")
			s.load.answered(a)
			return nil
		}
		body = append(s.load.names.append(append(body, `{"id":"`...), task), `",`...)
		body = append(append(body, submission[1:]...), '\n')
	}
	if flush() == nil {
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	}
	return nil
}

// readLines reads the answers, which come in the order of the lines.
func (s *sender) readLines(conn net.Conn, waiting <-chan answer) error {
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 64<<10), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the bulk submission was answered by %s", resp.Status)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		a, ok := <-waiting
		if !ok {
			return errors.New("more answers than lines")
		}
		if line := lines.Bytes(); !bytes.Contains(line, []byte(`"status":20`)) {
			a.err = &refusedError{string(line)}
		}
		s.load.answered(a)
	}
	return nil
}
