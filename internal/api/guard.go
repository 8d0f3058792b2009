package api

import (
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
)

// guard refuses requests that a web site makes a browser send us. While we listen on loopback there is no password,
// so the name in Host is what tells our own page from a site whose name was pointed at 127.0.0.1 (DNS rebinding).
type guard struct {
	hosts    map[string]bool
	loopback atomic.Bool
}

func newGuard(hosts []string) *guard {
	g := &guard{hosts: map[string]bool{"localhost": true}}
	for _, h := range hosts {
		g.hosts[strings.ToLower(h)] = true
	}
	return g
}

func (g *guard) listensOn(a net.Addr) {
	t, ok := a.(*net.TCPAddr)
	g.loopback.Store(ok && t.IP.IsLoopback())
}

func (g *guard) allows(host string) bool {
	if !g.loopback.Load() {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	return g.hosts[host]
}

func (g *guard) protect(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, problem(http.StatusForbidden, codeCrossOrigin,
			"Another web site asked for a change; only this engine's own page and programs may."))
	}))
	checked := origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"] = valuesNoSniff
		h["X-Frame-Options"] = valuesDeny
		h["Referrer-Policy"] = valuesNoReferrer
		h["Cross-Origin-Resource-Policy"] = valuesSameOrigin
		h["Cache-Control"] = valuesNoStore
		if !g.allows(r.Host) {
			writeProblem(w, r, problem(http.StatusMisdirectedRequest, codeHost,
				"This engine listens on a loopback address and answers to localhost only; a proxy's name is allowed by configuration."))
			return
		}
		checked.ServeHTTP(w, r)
	})
}

// catch answers a panic of a handler with a problem document, while the answer has not begun.
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
				panic(http.ErrAbortHandler) // the answer has begun: cutting it off is all that tells the client
			}
			writeProblem(w, r, asProblem(errPanic))
		}()
		next.ServeHTTP(w, r)
	})
}

var errPanic = errors.New("a handler panicked")
