package ui_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/docs"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/monitoring"
	"github.com/sagalog/sagalog/internal/ui"
	"github.com/sagalog/sagalog/sdk"
	"github.com/stretchr/testify/require"
)

var (
	hrefs = regexp.MustCompile(` (?:href|src)="([^"]*)"`)
	ids   = regexp.MustCompile(` id="([^"]*)"`)
)

// document is what was served at a path.
type document struct {
	text string
	ids  map[string]bool
}

func read(t *testing.T, h http.Handler, path string) *document {
	t.Helper()
	a := get(t, h, "GET", path)
	if a.Code != 200 {
		return nil
	}
	d := &document{a.Body.String(), map[string]bool{}}
	for _, m := range ids.FindAllStringSubmatch(d.text, -1) {
		require.False(t, d.ids[m[1]], "%s has two anchors %s", path, m[1])
		d.ids[m[1]] = true
	}
	return d
}

// From the list, every document that is embedded is reached by links, and no link leads nowhere.
func TestEveryLinkOfTheDocumentsLeadsSomewhere(t *testing.T) {
	t.Parallel()
	h, err := ui.Handler(ui.Options{Prefix: "/sagalog"})
	require.NoError(t, err)
	seen := map[string]*document{}
	for todo := []string{"/sagalog/docs/"}; len(todo) > 0; todo = todo[1:] {
		path := todo[0]
		if seen[path] != nil {
			continue
		}
		seen[path] = read(t, h, path)
		require.NotNil(t, seen[path], path)
		if !strings.Contains(path, "/docs/") || strings.HasSuffix(path, ".css") {
			continue
		}
		for _, m := range hrefs.FindAllStringSubmatch(seen[path].text, -1) {
			to, err := url.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			require.NoError(t, err)
			if to.Scheme != "" {
				continue
			}
			at := (&url.URL{Path: path}).ResolveReference(to)
			d := read(t, h, at.Path)
			require.NotNil(t, d, "%s links to %s", path, m[1])
			require.True(t, at.Fragment == "" || d.ids[at.Fragment], "%s links to %s, which has no such anchor", path, m[1])
			todo = append(todo, at.Path)
		}
	}
	for folder, files := range map[string]fs.FS{"": docs.Files, "sdk/": sdk.Files} {
		require.NoError(t, fs.WalkDir(files, ".", func(file string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				name := strings.TrimSuffix(folder+strings.TrimSuffix(file, ".md"), "README")
				at := "/sagalog/docs/" + strings.TrimSuffix(name, "/")
				require.NotNil(t, seen[at], "%s is reached from the list", at)
			}
			return err
		}))
	}
}

func TestADocumentIsAPlainPageUnderThePolicy(t *testing.T) {
	t.Parallel()
	h, err := ui.Handler(ui.Options{})
	require.NoError(t, err)
	a := get(t, h, "GET", "/docs/waiting")
	require.Equal(t, 200, a.Code)
	require.Contains(t, a.Header().Get("Content-Type"), "text/html")
	require.Contains(t, a.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.Contains(t, a.Body.String(), `<h2 id="cool_down">cool_down</h2>`)
	require.Contains(t, a.Body.String(), "<table>")
	require.NotRegexp(t, `<script|<style| style=| on[a-z]+="`, a.Body.String(), "nothing is inline")

	r := httptest.NewRequest("GET", "/docs/waiting", nil)
	r.Header.Set("If-None-Match", a.Header().Get("ETag"))
	again := httptest.NewRecorder()
	h.ServeHTTP(again, r)
	require.Equal(t, http.StatusNotModified, again.Code)

	require.Equal(t, a.Body.String(), get(t, h, "GET", "/docs/waiting.md").Body.String())
	require.Equal(t, "/docs/", get(t, h, "GET", "/docs").Header().Get("Location"))
	require.Equal(t, 405, get(t, h, "POST", "/docs/waiting").Code)
	require.Empty(t, get(t, h, "HEAD", "/docs/waiting").Body.Bytes())
	for path, list := range map[string]string{"/docs/none": `href="./"`, "/docs/reference/none": `href="../"`, "/docs/doc.go": `href="./"`, "/docs/../ui.go": ""} {
		a := get(t, h, "GET", path)
		require.Equal(t, 404, a.Code, path)
		require.Contains(t, a.Body.String(), list, path)
	}
}

// The page links to the section of what a task waits for, and to the row of the kind of an alert.
func TestTheDocumentsHaveTheAnchorsThatThePageUses(t *testing.T) {
	t.Parallel()
	h, err := ui.Handler(ui.Options{})
	require.NoError(t, err)
	waiting, alerts := read(t, h, "/docs/waiting"), read(t, h, "/docs/alerts")
	for _, kind := range events.Waitings() {
		require.True(t, waiting.ids[string(kind)], kind)
	}
	for _, a := range monitoring.EngineAlerts {
		require.True(t, alerts.ids[a.Kind], a.Kind)
	}
}
