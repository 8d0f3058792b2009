package dronedelivery

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The headers that an agent sends with every call.
const (
	headerKey     = "Idempotency-Key"
	headerUndoes  = "Sagalog-Undoes"
	headerTask    = "Sagalog-Task"
	headerAttempt = "Sagalog-Attempt"
	headerRun     = "Sagalog-Run"
)

const (
	opDo   = "do"
	opUndo = "undo"
)

const (
	// bodyMax is above the engine's limit of a step's input (256 KiB), so that the engine's limit is met first.
	bodyMax = 1 << 20
	// idMax is the limit of a task ID.
	idMax = 255
)

// call holds the relevant parts of a request below /api/.
type call struct {
	method string
	// path is as received, percent-encoded.
	path string
	// ids are the decoded identifiers in path. resource is the name of the thing that they identify within its service.
	ids      []string
	resource string

	key, task string
	// undoes is the key of the do that an undo reverses, "" for an undo by a person.
	undoes       string
	attempt, run int
	body         []byte
}

func readCall(k kind, w http.ResponseWriter, r *http.Request) (call, *problem) {
	c := call{
		method:  r.Method,
		path:    r.URL.EscapedPath(),
		key:     text(r.Header.Get(headerKey)),
		task:    text(r.Header.Get(headerTask)),
		undoes:  text(r.Header.Get(headerUndoes)),
		attempt: number(r.Header.Get(headerAttempt), 0),
		run:     number(r.Header.Get(headerRun), 1),
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return c, refusal(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", bodyMax)
		}
		return c, refusal(http.StatusBadRequest, "the body could not be read: %v", err)
	}
	c.body = body
	ids, ok := k.match(c.path)
	if !ok {
		return c, refusal(http.StatusNotFound, "the %s service knows %s only", k.name, k.template)
	}
	c.ids, c.resource = ids, resourceName(ids)
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return c, refusal(http.StatusBadRequest, "%v", err)
		}
	}
	return c, nil
}

// operation is the effect of the call: "do", "undo", or "" for none.
func (c call) operation() string {
	switch c.method {
	case http.MethodPut:
		return opDo
	case http.MethodDelete:
		return opUndo
	}
	return ""
}

// segments splits an encoded path and then decodes, in this order: an encoded '/' is part of an identifier.
func segments(escaped string) ([]string, bool) {
	parts := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i, p := range parts {
		s, err := url.PathUnescape(p)
		if err != nil {
			return nil, false
		}
		parts[i] = s
	}
	return parts, true
}

// resourceName joins identifiers with a byte that none of them can contain.
func resourceName(ids []string) string { return strings.Join(ids, "\x00") }

func checkID(id string) error {
	switch {
	case id == "" || len(id) > idMax:
		return fmt.Errorf("an identifier has 1 to %d bytes, this one has %d", idMax, len(id))
	case !utf8.ValidString(id):
		return errors.New("an identifier is not UTF-8")
	case strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("an identifier has control characters")
	}
	return nil
}

// text makes a header's value safe for the ledger: JSON would rewrite other bytes, and the memory of a live service would
// differ from the memory after a restart.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func number(s string, missing int) int {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil && n >= 0 {
		return int(n)
	}
	return missing
}
