package api

import (
	"bytes"
	"errors"
	"io"
)

// lines cuts a body into lines. It waits for one, and then gives all that have come: so what arrived while the last
// ones were looked at is looked at together, and a client that sends a line and waits for its answer gets it.
type lines struct {
	body io.Reader
	// limit is that of a line without its end.
	limit int
	// held is what was read and not given. It grows for a line that is longer.
	held []byte
	// skips says that the line whose end is awaited is too long; its bytes are not kept.
	skips bool
	// err is what ended the body, nil before.
	err error
}

// line is one line without its end, in memory of its own.
type line struct {
	data []byte
	// tooLong says that it is above the limit; then there are no data.
	tooLong bool
}

// lineEnd is how many bytes of an end of a line count not as the line's.
const lineEnd = len("\r\n")

func newLines(body io.Reader, limit int) *lines {
	return &lines{body: body, limit: limit, held: make([]byte, 0, bulkBuffer)}
}

// next appends to list the next lines. With an error there are no more: io.EOF is the end of the body, and anything else
// broke the line behind the last one.
func (l *lines) next(list []line) ([]line, error) {
	before := len(list)
	for {
		if list = l.cut(list); len(list) > before {
			return list, nil
		}
		if l.err != nil {
			return l.last(list), l.err
		}
		l.read()
	}
}

// cut takes the whole lines out of held.
func (l *lines) cut(list []line) []line {
	end := bytes.LastIndexByte(l.held, '\n') + 1
	if end == 0 {
		if len(l.held) > l.limit+lineEnd {
			l.skips = true
		}
		if l.skips {
			l.held = l.held[:0]
		}
		return list
	}
	own := bytes.Clone(l.held[:end])
	l.held = append(l.held[:0], l.held[end:]...)
	for len(own) > 0 {
		n := bytes.IndexByte(own, '\n') + 1
		list = append(list, l.line(own[:n:n]))
		own = own[n:]
	}
	return list
}

// last takes what stands behind the last end of a line, where the body is whole.
func (l *lines) last(list []line) []line {
	if !errors.Is(l.err, io.EOF) || len(l.held) == 0 && !l.skips {
		return list
	}
	return append(list, l.line(bytes.Clone(l.held)))
}

func (l *lines) line(data []byte) line {
	tooLong := l.skips || len(data) > l.limit+lineEnd
	l.skips = false
	data = bytes.TrimRight(data, "\r\n")
	if tooLong || len(data) > l.limit {
		return line{tooLong: true}
	}
	return line{data: data}
}

func (l *lines) read() {
	if len(l.held) == cap(l.held) {
		l.held = append(make([]byte, 0, 2*cap(l.held)), l.held...)
	}
	var n int
	n, l.err = l.body.Read(l.held[len(l.held):cap(l.held)])
	l.held = l.held[:len(l.held)+n]
}
