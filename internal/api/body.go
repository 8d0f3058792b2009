package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sagalog/sagalog/events"
)

// bodyTimeout bounds how long one body may take: 512 KiB in 30 s is slower than any link that is of use.
const bodyTimeout = 30 * time.Second

// bodyFirst is what a body may take on the mere word of its length; more it gets as it arrives. Most are smaller.
const bodyFirst = 16 << 10

// readBody reads a whole body up to limit bytes. name names the limit to the client, who has to know which it was.
func (x exchange) readBody(limit int, name string) ([]byte, error) {
	c := http.NewResponseController(x.w)
	// A writer without deadlines is a test's recorder: its body cannot be slow.
	_ = c.SetReadDeadline(time.Now().Add(bodyTimeout))
	b, err := x.readAll(int64(limit))
	if err != nil {
		return nil, bodyProblem(err, limit, name)
	}
	// The deadline would else end the watch for the client's hanging up, and with it a later wait.
	_ = c.SetReadDeadline(time.Time{})
	return b, nil
}

func (x exchange) readAll(limit int64) ([]byte, error) {
	n := x.r.ContentLength
	if n < 0 || n > limit || x.r.Body == nil {
		return io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, limit))
	}
	b := make([]byte, 0, min(n, bodyFirst))
	for int64(len(b)) < n {
		if len(b) == cap(b) {
			b = slices.Grow(b, int(min(n-int64(len(b)), int64(len(b)))))
		}
		got, err := io.ReadFull(x.r.Body, b[len(b):min(int64(cap(b)), n)])
		b = b[:len(b)+got]
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

func bodyProblem(err error, limit int, name string) *Problem {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return tooLargeProblem(limit, name)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem(http.StatusRequestTimeout, codeTooSlow, fmt.Sprintf("The body did not arrive within %s.", events.Duration(bodyTimeout)))
	}
	return problem(http.StatusBadRequest, codeUnreadable, "The body ended early.")
}

func tooLargeProblem(limit int, name string) *Problem {
	return problem(http.StatusRequestEntityTooLarge, codeTooLarge,
		fmt.Sprintf("The body is larger than %d bytes, the limit of %s.", limit, name))
}

// acceptsJSON refuses a body that says that it is something else. What curl -d says by default is let through, since
// nobody means it.
func (x exchange) acceptsJSON() error {
	switch t := mediaType(x.r); {
	case t == "", t == contentJSON, t == "application/x-www-form-urlencoded", strings.HasSuffix(t, "+json"):
		return nil
	}
	return problem(http.StatusUnsupportedMediaType, codeMediaType, "The body must be application/json.").with("Accept", contentJSON)
}

// syntaxProblem says where a body stops being JSON, nil if it is JSON throughout.
func syntaxProblem(b []byte) *Problem {
	var v json.RawMessage
	err := json.Unmarshal(b, &v)
	if err == nil {
		return nil
	}
	place := ProblemPlace{Message: err.Error()}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		place.Line, place.Column = position(b, e.Offset)
	}
	return problem(http.StatusBadRequest, codeUnreadable, "The body is not JSON.", place)
}

// position turns a byte offset, counted from 1, into line and column.
func position(b []byte, offset int64) (line, column int) {
	before := b[:max(0, min(int(offset)-1, len(b)))]
	line = 1 + bytes.Count(before, []byte("\n"))
	if i := bytes.LastIndexByte(before, '\n'); i >= 0 {
		before = before[i+1:]
	}
	return line, 1 + utf8.RuneCount(before)
}
