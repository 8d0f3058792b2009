package ui

import (
	"bytes"
	"embed"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"strings"
	"time"
)

//go:embed dist
var dist embed.FS

// policy lets the page load only what comes from its own origin. Nothing in it is inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

// Options says where the page is.
type Options struct {
	// Prefix is the path below which the handler and the API are mounted, such as /sagalog. It is empty at the root.
	Prefix string
}

// Handler serves the page below o.Prefix: its files, the documents of Sagalog below docs/, and at every other path the page itself, which reads from the address what to show.
// The API has to be mounted below the same prefix, as prefix/v1. The handler answers GET and HEAD, and other methods with 405.
func Handler(o Options) (http.Handler, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("read the files of the page: %w", err)
	}
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	written, err := newDocuments()
	if err != nil {
		return nil, err
	}
	prefix := "/" + strings.Trim(o.Prefix, "/")
	if prefix != "/" {
		prefix += "/"
	}
	index = bytes.Replace(index, []byte(`<base href="/" />`), []byte(`<base href="`+html.EscapeString(prefix)+`" />`), 1)
	serve := http.StripPrefix(strings.TrimSuffix(prefix, "/"), http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "The page answers only GET and HEAD.", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		name := strings.TrimPrefix(r.URL.Path, prefix)
		if name == "docs" {
			http.Redirect(w, r, prefix+"docs/", http.StatusMovedPermanently)
			return
		}
		if document, ok := strings.CutPrefix(name, "docs/"); ok {
			written.serve(w, r, document)
			return
		}
		if info, err := fs.Stat(files, name); err == nil && !info.IsDir() && name != "index.html" {
			h.Set("Cache-Control", "no-cache")
			if strings.HasPrefix(name, "assets/") { // their names change with their content
				h.Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			serve.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(name, "assets/") {
			http.Error(w, "The page has no such file. It may belong to another version: reload the page.", http.StatusNotFound)
			return
		}
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Type", "text/html; charset=utf-8")
		http.ServeContent(w, r, "index.html", time.Time{}, bytes.NewReader(index))
	}), nil
}
