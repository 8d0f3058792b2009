package api

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes builds the whole handler, from the outside in: bound the rest, open, measure, catch, protect, refuse to change the past, receive, admit, dispatch,
// serve at the owner, mux, huma.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	api := humago.New(mux, s.description())
	api.UseMiddleware(withExchange, givenOnce(api))
	for _, p := range s.parts() {
		p.register(api)
	}
	documentLimits(api.OpenAPI())
	s.documentAccess(api.OpenAPI())
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{}))
	serveDocument(mux, api.OpenAPI())
	return boundRest(opening(s.cfg.Keys, s.metrics.measure(s.catch(s.guard.protect(s.readOnly(s.proxy.Receive(s.admit(mux, s.dispatch(mux)))))))))
}

// Title is the title of the API.
const Title = "Sagalog"

// description is huma's configuration: no documentation page (it loads scripts from the network), no $schema member, and problems
// documented in our form.
func (s *Server) description() huma.Config {
	version := s.cfg.Version
	if version == "" {
		version = "dev"
	}
	c := huma.DefaultConfig(Title, version)
	c.Info.Description = "Tasks of several steps, each done, undone, or parked in front of an operator. " +
		"Task IDs are percent-encoded in paths. Problems are RFC 9457 documents."
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil
	c.RejectUnknownQueryParameters = true
	c.Transformers = []huma.Transformer{fromHuma}
	return c
}

// serveDocument renders the OpenAPI document at the first request, because that takes as long as all else at a start. Huma's own handlers
// do so unguarded.
func serveDocument(mux *http.ServeMux, doc *huma.OpenAPI) {
	type document struct{ yaml, json []byte }
	render := sync.OnceValues(func() (d document, err error) {
		if d.yaml, err = doc.YAML(); err == nil {
			d.json, err = doc.MarshalJSON()
		}
		return d, err
	})
	serve := func(kind string, of func(document) []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			d, err := render()
			if err != nil {
				panic(fmt.Errorf("render the OpenAPI document: %w", err)) // catch answers and logs it
			}
			w.Header().Set("Content-Type", kind)
			w.Write(of(d))
		}
	}
	mux.HandleFunc("GET /openapi.yaml", serve("application/openapi+yaml", func(d document) []byte { return d.yaml }))
	mux.HandleFunc("GET /openapi.json", serve("application/openapi+json", func(d document) []byte { return d.json }))
}

// dispatch writes the problem documents for requests that the mux would refuse in plain text. Submissions do not reach
// the mux: bulk ones because two handlers cannot share a pattern, and single ones for speed.
func (s *Server) dispatch(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		escaped := r.URL.EscapedPath()
		if !isClean(escaped) {
			writeProblem(w, r, problem(http.StatusNotFound, codeNotFound,
				"There is nothing at this path. In a path, a / in a task ID is percent-encoded as %2F."))
			return
		}
		if escaped == tasksPath && r.Method == http.MethodPost && mediaType(r) == contentNDJSON {
			r.Pattern = "POST /v1/tasks"
			s.submissions.bulk(w, r)
			return
		}
		if s.submissions.direct(w, r, escaped) {
			return
		}
		masked := mask(r, escaped)
		h, pattern := mux.Handler(masked)
		if pattern == "" {
			if s.ofPage(r, escaped) {
				r.Pattern = "GET /"
				s.cfg.Page.ServeHTTP(w, r)
				return
			}
			var p probe
			h.ServeHTTP(&p, masked)
			writeProblem(w, r, p.problem())
			return
		}
		r.Pattern = pattern // for measure, catch and serveAtOwner
		s.serveAtOwner(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, mask(r, escaped)) }))
	})
}

// ofPage says whether a request that the mux does not know is for the page.
func (s *Server) ofPage(r *http.Request, escaped string) bool {
	return s.cfg.Page != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(escaped, "/v1/")
}

// mask escapes the path once more, so that the mux decodes it only to what the client sent: the mux would take a segment that
// decodes to "/" for the end of the path, and the task with that ID could not be reached. withExchange unmasks it.
func mask(r *http.Request, escaped string) *http.Request {
	c, u := *r, *r.URL
	u.Path, u.RawPath = escaped, strings.ReplaceAll(escaped, "%", "%25")
	c.URL = &u
	return &c
}

func unmask(r *http.Request) {
	u := r.URL
	if path, err := url.PathUnescape(u.Path); err == nil {
		u.Path, u.RawPath = path, u.Path
	}
	for _, name := range []string{"id", "name", "step", "ticket"} {
		// Every path that came over the wire can be unescaped, because net/http has checked it.
		if v, err := url.PathUnescape(r.PathValue(name)); err == nil && v != "" {
			r.SetPathValue(name, v)
		}
	}
}

// isClean says whether the mux would leave the path alone instead of redirecting.
func isClean(escaped string) bool {
	if escaped == "/" {
		return true
	}
	return strings.TrimSuffix(escaped, "/") == path.Clean(escaped)
}

func mediaType(r *http.Request) string {
	given := r.Header.Get("Content-Type")
	if given == contentJSON || given == contentNDJSON || given == "" {
		return given // mime.ParseMediaType allocates a map for the parameters
	}
	t, _, err := mime.ParseMediaType(given)
	if err != nil {
		return strings.TrimSpace(given)
	}
	return t
}

// probe captures the mux's plain answer to find out whether it is 404 or 405.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}

func (p *probe) WriteHeader(status int) { p.status = status }

func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

func (p *probe) problem() *Problem {
	if p.status == http.StatusMethodNotAllowed {
		allow := p.header.Get("Allow")
		return problem(p.status, codeMethod, fmt.Sprintf("This path takes %s.", allow)).with("Allow", allow)
	}
	return problem(http.StatusNotFound, codeNotFound, "There is nothing at this path. /openapi.yaml lists all paths.")
}

// exchange is the request and its answer, for handlers that need more than huma's parameters, such as those that read
// the body themselves.
type exchange struct {
	r *http.Request
	w http.ResponseWriter
}

type exchangeKey struct{}

func withExchange(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	unmask(r)
	next(huma.WithValue(ctx, exchangeKey{}, exchange{r, w}))
}

// givenOnce refuses repeats of a parameter that has a single value: all but one would be ignored.
func givenOnce(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		u := ctx.URL()
		if !strings.Contains(u.RawQuery, "&") {
			next(ctx)
			return
		}
		given := u.Query()
		for _, p := range ctx.Operation().Parameters {
			if p.In == "query" && p.Schema.Type != huma.TypeArray && len(given[p.Name]) > 1 {
				fault := &huma.ErrorDetail{Location: "query." + p.Name, Message: "is given more than once"}
				_ = huma.WriteErr(api, ctx, http.StatusUnprocessableEntity, "", fault) // the client is gone
				return
			}
		}
		next(ctx)
	}
}

func exchangeOf(ctx context.Context) exchange { return ctx.Value(exchangeKey{}).(exchange) }

// described is the form of a body and an example of it.
type described struct {
	as      reflect.Type
	example any
	// bytes is the limit of the body, or of each line of NDJSON.
	bytes int
}

// describeBody documents a body that the handler reads itself. It is called after Register, because otherwise
// huma would read the body.
func describeBody(api huma.API, path, method string, d described, contents ...string) {
	b := &huma.RequestBody{
		Required: true, Content: map[string]*huma.MediaType{}, Extensions: map[string]any{bodyLimit: d.bytes},
		Description: fmt.Sprintf("At most %d bytes; for NDJSON each line. A larger one is answered 413", d.bytes),
	}
	for _, c := range contents {
		schema := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
		if d.as != nil {
			schema = api.OpenAPI().Components.Schemas.Schema(d.as, true, d.as.Name())
		}
		b.Content[c] = &huma.MediaType{Schema: schema}
		if c == contentJSON {
			b.Content[c].Example = d.example
		}
	}
	item := api.OpenAPI().Paths[path]
	switch method {
	case http.MethodPut:
		item.Put.RequestBody = b
	case http.MethodPost:
		item.Post.RequestBody = b
	}
}

// operation fills in what all operations share.
func operation(api huma.API, op huma.Operation) huma.Operation {
	schema := api.OpenAPI().Components.Schemas.Schema(problemReflected, true, "Problem")
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "A problem document",
		Content:     map[string]*huma.MediaType{contentProblem: {Schema: schema}},
	}
	return op
}
