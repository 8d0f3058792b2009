package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lines cuts a body into lines. It waits for one line, and then returns all that have arrived, so that lines that arrived during
// a check are checked together, and a client that sends one line and waits for its answer gets it.
type lines struct {
	body *bufio.Reader
	// limit is the longest line, without its end.
	limit int
}

// line is one line without its end. Its memory is not shared.
type line struct {
	data []byte
	// tooLong says that it is longer than the limit; then data is nil.
	tooLong bool
}

func newLines(body io.Reader, limit int) *lines {
	return &lines{body: bufio.NewReaderSize(body, bulkBuffer), limit: limit}
}

// next appends the next lines to list. After an error there are no more lines: io.EOF is the end of the body, and
// any other error interrupted the line after the last one.
func (l *lines) next(list []line) ([]line, error) {
	for {
		one, ok, err := l.read()
		if ok {
			list = append(list, one)
		}
		if err != nil {
			return list, err
		}
		arrived, _ := l.body.Peek(l.body.Buffered())
		if bytes.IndexByte(arrived, '\n') < 0 {
			return list, nil
		}
	}
}

// read reads one line; false if the body ended before or in it.
func (l *lines) read() (one line, ok bool, err error) {
	var data []byte
	for {
		part, err := l.body.ReadSlice('\n')
		// The bytes of a line that is too long are dropped; its end does not count.
		if one.tooLong = one.tooLong || len(data)+len(part) > l.limit+len("\r\n"); !one.tooLong {
			data = append(data, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			ok = len(data) > 0 || one.tooLong
		case err == nil:
			ok = true
		}
		if data = bytes.TrimRight(data, "\r\n"); len(data) > l.limit {
			one.tooLong = true
		}
		if !one.tooLong {
			one.data = data
		}
		return one, ok, err
	}
}
