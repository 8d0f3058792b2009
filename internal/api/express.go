package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// tasksPath is where submissions go; behind it and a slash stands a task's ID.
const tasksPath = "/v1/tasks"

// express answers a single submission without the mux and huma, which take longer for it than all the rest; both know
// these operations too, describe them, and answer what is not of the plain form. It returns false for everything else,
// before anything of it was read or written.
//
// Invariant: it answers what they would, byte for byte.
func (s *Server) express(w http.ResponseWriter, r *http.Request, escaped string) bool {
	if r.URL.RawQuery != "" || !takesJSON(r) {
		return false
	}
	id := ""
	switch {
	case r.Method == http.MethodPut && strings.HasPrefix(escaped, tasksPath+"/"):
		rest := escaped[len(tasksPath)+1:]
		if rest == "" || strings.Contains(rest, "/") {
			return false
		}
		var err error
		if id, err = url.PathUnescape(rest); err != nil {
			return false
		}
		r.Pattern = "PUT /v1/tasks/{id}"
	case r.Method == http.MethodPost && escaped == tasksPath:
		r.Pattern = "POST /v1/tasks"
	default:
		return false
	}
	a, err := s.expressed(exchange{r, w}, id)
	if err != nil {
		writeProblem(w, r, asProblem(err))
		return true
	}
	h := w.Header()
	h["Location"] = []string{a.Location}
	h["Content-Type"] = valuesJSON
	w.WriteHeader(a.Status)
	_, _ = w.Write(append(appendReceipt(nil, &a.Body), '\n'))
	return true
}

func (s *Server) expressed(x exchange, id string) (*ReceiptAnswer, error) {
	if x.r.Method == http.MethodPut {
		if err := checkID(id); err != nil {
			return nil, err
		}
	}
	return s.submit(x.r.Context(), x, id)
}

// takesJSON says whether the client plainly takes JSON; huma weighs the rest.
func takesJSON(r *http.Request) bool {
	switch r.Header.Get("Accept") {
	case "", "*/*", contentJSON:
		return true
	}
	return false
}

// Values of headers that are the same in all answers. Nobody changes them.
var (
	valuesJSON       = []string{contentJSON}
	valuesNoSniff    = []string{"nosniff"}
	valuesDeny       = []string{"DENY"}
	valuesNoReferrer = []string{"no-referrer"}
	valuesSameOrigin = []string{"same-origin"}
	valuesNoStore    = []string{"no-store"}
)

// appendReceipt encodes a receipt as encoding/json would.
func appendReceipt(dst []byte, r *Receipt) []byte {
	if dst == nil {
		const frame = len(`{"id":,"partition":,"offset":,"token":,"request":}`) + 64
		dst = make([]byte, 0, frame+len(r.ID)+len(r.Token)+len(r.Request))
	}
	dst = appendText(append(dst, `{"id":`...), r.ID)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(r.Partition), 10)
	if r.Offset != nil {
		dst = strconv.AppendInt(append(dst, `,"offset":`...), *r.Offset, 10)
	}
	dst = appendText(append(dst, `,"token":`...), r.Token)
	if r.Request != "" {
		dst = appendText(append(dst, `,"request":`...), r.Request)
	}
	return append(dst, '}')
}

// appendText encodes a text; the general encoder does what is not plain ASCII.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b, err := events.Marshal(s)
			if err != nil {
				panic("api: a text does not encode: " + err.Error())
			}
			return append(dst, b...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
