package api

import (
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
)

// guard refuses requests that a web site makes a browser send here. There is no password, so the name in Host
// distinguishes our page from a site whose name was pointed at our address (DNS rebinding). No site can choose an IP
// address as its name, so those are allowed.
type guard struct{ hosts map[string]bool }

func newGuard(hosts []string) *guard {
	g := &guard{hosts: map[string]bool{"localhost": true}}
	for _, h := range hosts {
		g.hosts[strings.ToLower(strings.TrimSuffix(h, "."))] = true
	}
	return g
}

func (g *guard) allows(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return g.hosts[host] || net.ParseIP(host) != nil
}

// GuardHost refuses requests whose Host is not an IP address, localhost or one of the hosts. It is for pages that a process
// serves besides its API.
func GuardHost(next http.Handler, hosts ...string) http.Handler {
	g := newGuard(hosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.allows(r.Host) {
			writeProblem(w, r, problem(http.StatusMisdirectedRequest, codeHost, "Only requests to an IP address, to localhost or to a name of --host are answered here."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// HeaderAPI is in each answer of an engine. Commands look at it, since any service may answer with JSON.
const (
	HeaderAPI  = "Sagalog-Api"
	versionAPI = "v1"
)

func (g *guard) protect(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, problem(http.StatusForbidden, codeCrossOrigin,
			"Another web site asked for a change; only this engine's page and programs may do that."))
	}))
	checked := origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(HeaderAPI, versionAPI)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !g.allows(r.Host) {
			writeProblem(w, r, problem(http.StatusMisdirectedRequest, codeHost,
				"This engine does not know the name in Host. It answers requests to an IP address, to localhost and to the host of --advertise; "+
					"start it with --host NAME to allow a further name, such as that of a proxy."))
			return
		}
		checked.ServeHTTP(w, r)
	})
}

// readOnly refuses what would change a copy of the past.
func (s *Server) readOnly(next http.Handler) http.Handler {
	if s.cfg.Past == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		preview := r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/workflows/") && strings.HasSuffix(r.URL.Path, "/preview") // it changes nothing
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !preview {
			writeProblem(w, r, problem(http.StatusForbidden, codeForbidden,
				"This is a copy of the past, as of "+s.cfg.Past.String()+", and can only be read. To act, ask the engine that runs."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// catch answers a panic of a handler with a problem document, unless the answer has begun.
func (s *Server) catch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.cfg.Logger.Error("a handler of the API panicked", "panic", v, "route", r.Pattern, "stack", string(debug.Stack()))
			if a, ok := w.(*answer); ok && a.status != 0 {
				panic(http.ErrAbortHandler) // the answer has begun: only cutting the connection shows the client that it is incomplete
			}
			writeProblem(w, r, asProblem(errPanic))
		}()
		next.ServeHTTP(w, r)
	})
}

var errPanic = errors.New("a handler panicked")
