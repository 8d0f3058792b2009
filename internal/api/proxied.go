package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

// streamPatience is how long a stream that is being opened waits for an owner. Browsers do not ask again after a 503.
const streamPatience = 10 * time.Second

// proxied are the routes that are answered where the task's partition is. Submissions are not among them: the log takes them from
// any node, so none fails because another node is down.
var proxied = map[string]bool{
	"GET /v1/tasks/{id}":         true,
	"GET /v1/tasks/{id}/history": true,
	"GET " + outcomePath:         true,
	"GET " + limitPath:           true,
	"GET " + limitWaitingPath:    true,

	"POST " + limitPath + "/pause":  true,
	"POST " + limitPath + "/resume": true,

	"GET " + schedulePath:                true,
	"GET " + schedulePath + "/fires":     true,
	"POST " + schedulePath + "/pause":    true,
	"POST " + schedulePath + "/resume":   true,
	"POST " + schedulePath + "/trigger":  true,
	"POST " + schedulePath + "/backfill": true,
}

// serveAtOwner makes the node that has the partition answer the request; r.Pattern is known. Requests that are not
// about a single task are answered here.
func (s *Server) serveAtOwner(w http.ResponseWriter, r *http.Request, local http.Handler) {
	id, ok := keyOf(r.URL)
	if !proxied[r.Pattern] && !slices.Contains(requestPatterns, r.Pattern) || !ok {
		local.ServeHTTP(w, r)
		return
	}
	r = r.Clone(r.Context())
	q := proxy.Request{Partition: events.Home(id, s.cfg.Partitions), Local: local}
	q.Unanswered = func(w http.ResponseWriter, r *http.Request, at proxy.Route) { s.unanswered(w, r, q, at) }
	if r.Method == http.MethodPost {
		// The ID of the request makes a second try harmless: only the first in the log counts.
		if r.Header.Get("Idempotency-Key") == "" {
			r.Header.Set("Idempotency-Key", newID())
		}
		q.Patience = catchUpTimeout
		if wait, err := parseWait(r.URL.Query().Get("wait")); err == nil && wait != nil {
			q.Kind, q.Patience = proxy.Waiting, max(catchUpTimeout, *wait)
		}
		var err error
		if q.Body, err = (exchange{r, w}).readBody(requestBytes, "a request"); err != nil {
			writeProblem(w, r, asProblem(err))
			return
		}
	} else {
		q.Kind, q.Patience = patience(r)
		if r.URL.Query().Get("at") != "" {
			q.Within = pastAnswer
		}
	}
	s.proxy.Serve(w, r, q)
}

// requestPatterns are the routes of the verbs. They are answered where the task's partition is, too.
var requestPatterns = func() (list []string) {
	for _, v := range events.Verbs() {
		list = append(list, "POST "+requestPath(v))
	}
	return list
}()

// keyOf returns the key whose partition answers: that of a schedule or of a limit, or the ID of a task.
func keyOf(u *url.URL) (string, bool) {
	id, ok := taskOf(u)
	switch path := u.EscapedPath(); {
	case ok && strings.HasPrefix(path, limitsPath+"/"):
		return limitKey(id), true
	case ok && strings.HasPrefix(path, schedulesPath+"/"):
		id = events.ScheduleKey(id)
	}
	return id, ok && events.CheckTaskID(id) == nil
}

// taskOf returns the ID in /v1/tasks/{id} or below it, or the one that a question about a request names.
func taskOf(u *url.URL) (string, bool) {
	if id := u.Query().Get("task"); strings.HasPrefix(u.EscapedPath(), "/v1/requests/") {
		return id, id != ""
	}
	parts := strings.Split(u.EscapedPath(), "/")
	if len(parts) < 4 {
		return "", false
	}
	id, err := url.PathUnescape(parts[3])
	return id, err == nil
}

// patience returns the kind of a read, and how long it may wait for an owner.
func patience(r *http.Request) (proxy.Kind, time.Duration) {
	q := r.URL.Query()
	switch {
	case strings.HasSuffix(r.Pattern, "/history"):
		if strings.Contains(r.Header.Get("Accept"), contentEventStream) {
			return proxy.Streaming, streamPatience
		}
	case q.Get("wait") != "":
		if wait, err := parseWait(q.Get("wait")); err == nil {
			return proxy.Waiting, *wait
		}
	case q.Get("token") != "":
		return proxy.Waiting, DefaultTokenWait
	}
	return proxy.Quick, 0
}

// unanswered answers a request for which no owner was found in time. A request to change a task goes to the log anyway:
// the next owner of the partition handles it.
func (s *Server) unanswered(w http.ResponseWriter, r *http.Request, q proxy.Request, at proxy.Route) {
	if r.Method == http.MethodPost {
		q.Local.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), unseenKey{}, true)))
		return
	}
	if at.Node != "" && at.Addr == "" {
		p := takeoverProblem(q.Partition)
		p.Detail = fmt.Sprintf("Node %s owns the partition, but serves no API (role api). Ask a node with role projector: it answers for all partitions.", at.Node)
		writeProblem(w, r, p)
		return
	}
	if stopped := stoppedProblem(s.cfg.Cluster, q.Partition); stopped != nil {
		writeProblem(w, r, stopped)
		return
	}
	writeProblem(w, r, takeoverProblem(q.Partition))
}

type unseenKey struct{}

// unseen says that the task of a request cannot be looked up: no node that can be asked has its partition.
func unseen(ctx context.Context) bool { return ctx.Value(unseenKey{}) != nil }

// stoppedProblem says which of the partitions this node stopped, and why; nil if it stopped none. Asking again does not
// help, so there is no Retry-After.
func stoppedProblem(router proxy.Router, partitions ...int32) *Problem {
	var texts []string
	var stopped []int32
	for _, p := range partitions {
		if why := router.Route(p).Stopped; why != "" {
			texts = append(texts, events.Sentence(fmt.Sprintf("Partition %d is stopped: %s", p, why)))
			stopped = append(stopped, p)
		}
	}
	if len(stopped) == 0 {
		return nil
	}
	p := problem(http.StatusServiceUnavailable, codeStopped, strings.Join(texts, " ")+" It continues once the cause is removed and its node is restarted.")
	p.Partitions = stopped
	return p
}

// takeoverProblem says that no node answers for these partitions.
func takeoverProblem(partitions ...int32) *Problem {
	text := "The partition is being taken over by another node, or its owner does not answer. That takes a few seconds: ask again."
	if len(partitions) > 1 {
		text = "Partitions are being taken over by other nodes, or their owners do not answer. That takes a few seconds: ask again."
	}
	p := problem(http.StatusServiceUnavailable, codeTakeover, text).retryAfter(time.Second)
	p.Partitions = partitions
	return p
}

// needsOwner documents that an operation needs an owner that answers.
func needsOwner(api huma.API, op huma.Operation) huma.Operation {
	op = operation(api, op)
	unavailable := *op.Responses["default"]
	unavailable.Description = "A problem document with the code taking-over: the partition is being taken over by another node, or its owner " +
		"does not answer. Ask again after Retry-After. Or one with the code stopped: its owner cannot continue with the partition; detail says why"
	op.Responses["503"] = &unavailable
	return op
}
