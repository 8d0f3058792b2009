package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// tasksPath is the path of submissions; below it are tasks by their IDs.
const tasksPath = "/v1/tasks"

// direct answers a single submission without the mux and huma, which take longer for it than everything else together. These
// operations are also registered with them, for the documentation and for submissions that do not have the plain form. direct
// returns false for the latter, before it has read or written anything.
//
// Invariant: it gives the same answers as they would, byte for byte.
func (s *submissions) direct(w http.ResponseWriter, r *http.Request, escaped string) bool {
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
	a, err := s.submitDirect(exchange{r, w}, id)
	if err != nil {
		writeProblem(w, r, asProblem(err))
		return true
	}
	w.Header().Set("Location", a.Location)
	w.Header().Set("Content-Type", contentJSON)
	w.WriteHeader(a.Status)
	_, _ = w.Write(append(encode(&a.Body), '\n'))
	return true
}

func (s *submissions) submitDirect(x exchange, id string) (*ReceiptAnswer, error) {
	if x.r.Method == http.MethodPut {
		if err := checkID(id); err != nil {
			return nil, err
		}
	}
	return s.submit(x.r.Context(), x, id)
}

// encode encodes one of our documents, which cannot fail.
func encode(v any) []byte {
	b, err := events.Marshal(v)
	if err != nil {
		panic("api: a document does not encode: " + err.Error())
	}
	return b
}

// takesJSON says whether the client clearly takes JSON; huma weighs other preferences.
func takesJSON(r *http.Request) bool {
	switch r.Header.Get("Accept") {
	case "", "*/*", contentJSON:
		return true
	}
	return false
}
