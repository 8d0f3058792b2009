package proxy

import (
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

// streamWrite bounds one write to a client that does not read.
const streamWrite = 10 * time.Second

// heldAnswer is a local handler's answer. Nothing reaches the client before the handler begins to write. Then the answer is
// either passed on while it is written or, if it is not valid, dropped: the partition may have moved meanwhile, and the answer
// may be wrong.
type heldAnswer struct {
	w       http.ResponseWriter
	header  http.Header
	stands  func(status int) bool
	begun   bool
	dropped bool
}

// Header returns headers that reach the client only with a valid answer.
func (h *heldAnswer) Header() http.Header { return h.header }

func (h *heldAnswer) WriteHeader(status int) {
	if h.begun {
		return
	}
	h.begun = true
	if h.dropped = !h.stands(status); h.dropped {
		return
	}
	clear(h.w.Header())
	maps.Copy(h.w.Header(), h.header)
	h.w.WriteHeader(status)
}

func (h *heldAnswer) Write(b []byte) (int, error) {
	h.finish()
	if h.dropped {
		return len(b), nil
	}
	return h.w.Write(b)
}

// finish sends an answer that its handler left empty.
func (h *heldAnswer) finish() { h.WriteHeader(http.StatusOK) }

// FlushError is called by http.ResponseController. A stream ends by its error.
func (h *heldAnswer) FlushError() error {
	h.finish()
	if h.dropped {
		return ErrMoved
	}
	return http.NewResponseController(h.w).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.w }

// mediaTypes are those of the API's answers about partitions. Anyone who may write presence can name an address, and a page from
// there would have this node's origin: a browser would let its scripts send requests here.
var mediaTypes = []string{"application/json", "application/problem+json", "application/x-ndjson", eventStream}

const eventStream = "text/event-stream"

// ours says whether a node may have given this answer: nodes never redirect, and every body has a type.
func ours(resp *http.Response) bool {
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return true
	case resp.StatusCode < http.StatusOK, resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest:
		return false
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && slices.Contains(mediaTypes, media) && len(resp.Header.Values("Content-Type")) == 1
}

// foreignAnswer is the answer of another node on its way to the client.
type foreignAnswer struct {
	http.ResponseWriter
	// header holds what the other node sends until its answer begins: interim answers (1xx) come before it has identified
	// itself, and trailers after it was checked.
	header http.Header
	stream bool
}

func (a *foreignAnswer) begin(resp *http.Response) {
	resp.Header, resp.Trailer = pick(resp.Header, answerHeaders), nil
	if !strings.HasPrefix(resp.Header.Get("Location"), "/v1/") {
		resp.Header.Del("Location")
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), eventStream) {
		a.stream, resp.Body = true, endingBody{resp.Body}
	}
}

// Header returns headers that reach the client only with the answer.
func (a *foreignAnswer) Header() http.Header { return a.header }

func (a *foreignAnswer) WriteHeader(status int) {
	if status >= http.StatusOK {
		maps.Copy(a.ResponseWriter.Header(), a.header)
		a.ResponseWriter.WriteHeader(status)
	}
}

// Write gives each write of a stream a time limit, as the owner does.
func (a *foreignAnswer) Write(b []byte) (int, error) {
	if a.stream {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(streamWrite))
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *foreignAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// endingBody ends a stream that breaks off as if it had ended: its client asks again in either case, after the last complete
// event. (An event that was cut off does not count: only an empty line completes it.)
type endingBody struct{ io.ReadCloser }

func (b endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}
