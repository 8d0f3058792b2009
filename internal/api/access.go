package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/proxy"
)

// calls are the calls of the API by the least role that they need. A call that is missing here is answered to nobody.
var calls = map[access.Role][]string{
	access.Anyone: {
		"GET /healthz", "GET /readyz", "GET /openapi.yaml", "GET /openapi.json",
		"POST " + reportsPath + "{ticket}", // its ticket is the right to report this one attempt
	},
	access.Viewer: {
		"GET /metrics", "GET " + whoamiPath, "GET /v1/info", "GET /v1/agents", "GET /v1/partitions", "GET " + takeOversPath,
		"GET /v1/tasks", "GET /v1/tasks/{id}", "GET /v1/tasks/{id}/history", "GET " + itemsPath, "GET " + outcomePath, "GET " + countsPath,
		"GET /v1/workflows", "GET /v1/workflows/{name}", "GET /v1/dead-letters", "GET /v1/dead-letters/{id}",
		"GET " + jobsPath, "GET " + jobsPath + "/{id}", "GET " + jobsPath + "/{id}/results",
		"GET " + schedulesPath, "GET " + schedulePath, "GET " + schedulePath + "/fires",
		"GET " + limitsPath, "GET " + limitPath, "GET " + limitWaitingPath,
		"GET " + settingsPath, "GET " + lossesPath, "GET " + alertsPath, "GET " + livePath, "GET " + statsPath, "GET " + actsPath, "GET " + nodesPath,
	},
	access.Submitter: {
		"POST /v1/tasks", "PUT /v1/tasks/{id}", "POST /v1/tasks/{id}/signal", "POST " + previewPath,
	},
	access.Operator: {
		"POST /v1/tasks/{id}/cancel", "POST /v1/tasks/{id}/pause", "POST /v1/tasks/{id}/resume", "POST /v1/tasks/{id}/retry",
		"POST /v1/tasks/{id}/skip", "POST /v1/tasks/{id}/complete", "POST /v1/tasks/{id}/fail", "POST /v1/tasks/{id}/rerun",
		"POST /v1/tasks/{id}/terminate",
		"POST " + jobsPath, "POST " + jobsPath + "/{id}/stop", "POST " + redrivePath, "POST " + dismissPath, "POST " + reopenPath,
		"POST /v1/agents/{name}/pause", "POST /v1/agents/{name}/resume", "POST " + limitPath + "/pause", "POST " + limitPath + "/resume",
		"POST " + schedulePath + "/pause", "POST " + schedulePath + "/resume", "POST " + schedulePath + "/trigger",
		"POST " + schedulePath + "/backfill",
		"PUT " + demoPath, "DELETE " + demoPath, "POST " + acknowledgePath,
	},
	access.Admin: {
		"PUT /v1/workflows/{name}", "DELETE /v1/workflows/{name}", "DELETE /v1/workflows/{name}/versions/{version}",
		"PUT " + schedulePath, "DELETE " + schedulePath, "PUT " + limitPath, "DELETE " + limitPath,
		"PUT " + settingsPath, "POST " + upgradePath, "POST " + acceptedPath, "POST " + checkpointsPath,
	},
}

// roleOf returns the role that a call needs; false if it has none.
func roleOf(pattern string) (access.Role, bool) {
	role, ok := roles[pattern]
	return role, ok
}

var roles = func() map[string]access.Role {
	all := map[string]access.Role{}
	for role, patterns := range calls {
		for _, p := range patterns {
			all[p] = role
		}
	}
	return all
}()

// admit lets a request through if its caller has the role that the call needs, and names the caller in its context.
func (s *Server) admit(mux *http.ServeMux, next http.Handler) http.Handler {
	gate := s.cfg.Access
	if gate == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		escaped := r.URL.EscapedPath()
		_, pattern := mux.Handler(mask(r, escaped))
		need, known := roleOf(pattern)
		switch {
		case pattern == "" && !strings.HasPrefix(escaped, "/v1/"), need == access.Anyone:
			next.ServeHTTP(w, r) // the page, which holds no data, and what needs no role
			return
		case pattern == "":
			need, known = access.Viewer, true // no such call, which only somebody with a token learns
		}
		if pattern != "" {
			r.Pattern = pattern // for measure
		}
		c, err := s.caller(w, r)
		if err != nil {
			writeProblem(w, r, asProblem(err))
			return
		}
		if !known || !c.Role.Includes(need) {
			writeProblem(w, r, forbidden(c, need))
			return
		}
		inner := r.WithContext(access.With(r.Context(), c))
		if r.Header.Get(proxy.HeaderForwarded) == "" && (strings.Contains(r.Header.Get("Accept"), contentEventStream) || mediaType(r) == contentNDJSON) {
			ctx, done := gate.While(inner)
			defer done()
			inner = inner.WithContext(ctx)
		}
		next.ServeHTTP(w, inner)
		if pattern == "" {
			r.Pattern = inner.Pattern
		}
	})
}

// caller returns who sent a request, by its token, or by the signature of the node that passed it on.
func (s *Server) caller(w http.ResponseWriter, r *http.Request) (access.Caller, error) {
	if r.Header.Get(proxy.HeaderForwarded) == "" {
		c, err := s.cfg.Access.Caller(r)
		return c, unauthorized(err)
	}
	c, err := s.cfg.Access.Passed(r, func() ([]byte, error) { return exchange{r, w}.readBody(requestBytes, "a request") })
	if errors.Is(err, access.ErrUnsigned) {
		s.often.Warn("a request that another node seems to have passed on is refused: its signature is not valid", "from", r.RemoteAddr,
			"remedy", "give all nodes the same key (--node-key-file), and keep their clocks synchronized")
		return c, problem(http.StatusServiceUnavailable, codeUnavailable,
			"The node that owns the partition does not accept the signature of the node that was asked. "+
				"All nodes need the same key (--node-key-file), and clocks that agree.")
	}
	return c, err
}

// unauthorized returns the problem of a caller who is not recognized.
func unauthorized(err error) error {
	var text string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, access.ErrNoAnswer):
		return problem(http.StatusServiceUnavailable, codeUnavailable,
			"The identity provider does not answer, so the token cannot be checked. Ask again, or use a token of --tokens.").retryAfter(5 * time.Second)
	case errors.Is(err, access.ErrNoRole):
		return problem(http.StatusForbidden, codeForbidden,
			"The token is valid, but none of its groups has a role here. An administrator gives one with --oidc-role GROUP=ROLE.")
	case errors.Is(err, access.ErrMissing):
		text = "This call needs a token: send the header `Authorization: Bearer TOKEN`. An administrator makes one with `sagalog token create`."
	case errors.Is(err, access.ErrExpired):
		text = "The token has expired. An administrator makes another one with `sagalog token create`."
	default:
		text = "The token is not valid here. It may have been revoked, or belong to another engine."
	}
	return problem(http.StatusUnauthorized, codeUnauthorized, text).with("WWW-Authenticate", `Bearer realm="sagalog"`)
}

func forbidden(c access.Caller, need access.Role) *Problem {
	text := fmt.Sprintf("This call needs the role %s, and %s has the role %s.", need, c.Name, c.Role)
	if need == "" {
		text = "No role may make this call."
	}
	return problem(http.StatusForbidden, codeForbidden, text)
}

// by returns who asks, for the facts: the caller by its token or, while access is off, who the body says it is.
func (x exchange) by(given string) string {
	if c, ok := access.CallerOf(x.r.Context()); ok {
		return c.Name
	}
	return given
}

// documentAccess documents the role that each call needs, and that it needs a token if access is on.
func (s *Server) documentAccess(doc *huma.OpenAPI) {
	const scheme = "bearer"
	if doc.Components.SecuritySchemes == nil {
		doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{}
	}
	doc.Components.SecuritySchemes[scheme] = &huma.SecurityScheme{
		Type: "http", Scheme: "bearer",
		Description: "A token of `sagalog token create`, or of the identity provider. Calls need it if the engine was started with --tokens or " +
			"--oidc-issuer; then `by` in a body has no effect: the name of the token counts.",
	}
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete} {
			role, ok := roleOf(method + " " + path)
			if op == nil || !ok {
				continue
			}
			if s.cfg.Access != nil && role != access.Anyone {
				op.Security = []map[string][]string{{scheme: {}}}
			}
			op.Extensions = map[string]any{"x-sagalog-role": string(role)}
		}
	}
}

const whoamiPath = "/v1/whoami"

// WhoamiDocument is the caller.
type WhoamiDocument struct {
	Name    string         `json:"name,omitempty" doc:"The name of the token, which stands in facts as by"`
	Role    access.Role    `json:"role" enum:"viewer,submitter,operator,admin" doc:"What the caller may do. Each role includes those before it"`
	Access  string         `json:"access" enum:"on,off" doc:"off: no call needs a token"`
	Expires events.Instant `json:"expires,omitzero" format:"date-time" doc:"When the token ends"`
}

// WhoamiAnswer is the caller.
type WhoamiAnswer struct{ Body WhoamiDocument }

type whoami struct {
	// past says that this is a copy of the past, which nobody changes.
	past bool
}

func (x whoami) register(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "whoami", Method: http.MethodGet, Path: whoamiPath, Summary: "Who asks, and what the caller may do", Tags: []string{"engine"},
		Description: "While access is off, everyone may do everything.",
	}), func(ctx context.Context, _ *struct{}) (*WhoamiAnswer, error) {
		c, on := access.CallerOf(ctx)
		switch {
		case x.past && !on:
			return &WhoamiAnswer{WhoamiDocument{Role: access.Viewer, Access: "off"}}, nil
		case !on:
			return &WhoamiAnswer{WhoamiDocument{Role: access.Admin, Access: "off"}}, nil
		}
		d := WhoamiDocument{Name: c.Name, Role: c.Role, Access: "on"}
		if !c.Expires.IsZero() {
			d.Expires = events.At(c.Expires)
		}
		return &WhoamiAnswer{d}, nil
	})
}
