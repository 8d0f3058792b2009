package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// bodyTimeout bounds how long one body may take: a link that needs 30 s for 512 KiB is too slow to be of use.
const bodyTimeout = 30 * time.Second

// restFor is how long the rest of a body may take that nobody reads.
const restFor = time.Second

// boundRest bounds how long net/http waits for the rest of a body after an answer, such as a refusal, for which it was not read: it reads some of
// it so that the connection can be used again, without a limit of time.
func boundRest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restFor))
	})
}

// readBody reads a whole body up to limit bytes. name names the limit to the client.
func (x exchange) readBody(limit int, name string) ([]byte, error) {
	c := http.NewResponseController(x.w)
	// A writer without deadlines is a recorder in a test, whose body cannot be slow.
	_ = c.SetReadDeadline(time.Now().Add(bodyTimeout))
	b, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, int64(limit)))
	if err != nil {
		x.w.Header().Set("Connection", "close") // the answer does not wait for the rest
		return nil, bodyProblem(err, limit, name)
	}
	// Otherwise the deadline would end net/http's watch for a client that hangs up, and so cancel a later wait.
	_ = c.SetReadDeadline(time.Time{})
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

// acceptsJSON refuses a body whose media type is not JSON. Any method but POST also takes no media type and that of a form, which curl -d
// sends unless another is given. A POST does not: a page of another site can make a browser send such a POST without asking first. (The
// guard refuses it too.)
func (x exchange) acceptsJSON() error {
	t := mediaType(x.r)
	switch asCurl := t == "" || t == "application/x-www-form-urlencoded"; {
	case t == contentJSON, strings.HasSuffix(t, "+json"), asCurl && x.r.Method != http.MethodPost, t == "" && x.r.ContentLength == 0:
		return nil
	}
	return problem(http.StatusUnsupportedMediaType, codeMediaType,
		"The body must be application/json: send the header `Content-Type: application/json`.").with("Accept", contentJSON)
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

// memberText is a text in a body, of most bytes at most.
type memberText struct {
	into *string
	most int
}

// readTexts reads an optional body of texts. what is the body, and left says what the fault of one leaves undone: a sentence.
func (x exchange) readTexts(what, left string, texts map[string]memberText) error {
	data, err := x.readBody(settingsBytes, what)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return err
	}
	if err := x.acceptsJSON(); err != nil {
		return err
	}
	var faults []ProblemPlace
	err = x.readMembers(data, slices.Sorted(maps.Keys(texts)), func(name string, raw json.RawMessage) {
		if t := texts[name]; json.Unmarshal(raw, t.into) != nil || len(*t.into) > t.most {
			faults = append(faults, ProblemPlace{Pointer: "/" + name, Message: fmt.Sprintf("is not a text of at most %d bytes", t.most)})
		}
	})
	if err == nil && len(faults) > 0 {
		slices.SortFunc(faults, func(a, b ProblemPlace) int { return strings.Compare(a.Pointer, b.Pointer) })
		return problem(http.StatusUnprocessableEntity, codeInvalid, left, faults...)
	}
	return err
}

// optionalBody describes a body of texts that may be left out.
func optionalBody[B any](api huma.API, path string, example map[string]any) {
	describeBody(api, path, http.MethodPost, described{reflect.TypeFor[B](), example, settingsBytes}, contentJSON)
	api.OpenAPI().Paths[path].Post.RequestBody.Required = false
}
