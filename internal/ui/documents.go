package ui

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/sagalog/sagalog/docs"
	"github.com/sagalog/sagalog/sdk"
)

// documents answers the paths below docs/: the list of documents at docs/, each document at its path without .md, and their stylesheet.
// Those of the folder sdk, to which the list leads too, are at docs/sdk.
type documents struct {
	pages map[string]func() ([]byte, error) // by name; rendered at the first request, and kept
}

//go:embed documents.css
var documentsStyle []byte

const styleName = "documents.css"

// listName is the name of docs/README.md, which lists the documents.
const listName = ""

func newDocuments() (*documents, error) {
	d := &documents{pages: map[string]func() ([]byte, error){}}
	for folder, files := range map[string]fs.FS{"docs": docs.Files, "sdk": sdk.Files} {
		err := fs.WalkDir(files, ".", func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			d.pages[documentName(path.Join(folder, file))] = sync.OnceValues(func() ([]byte, error) { return d.render(files, folder, file) })
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the documents of the page: %w", err)
		}
	}
	return d, nil
}

// documentName returns the name under which a file of the repository is served: waiting for docs/waiting.md, examples for
// docs/examples/README.md, sdk/python for sdk/python/README.md.
func documentName(file string) string {
	name := strings.TrimPrefix(strings.TrimSuffix(file, ".md"), "docs/")
	if path.Base(name) == "README" {
		name = strings.TrimPrefix(path.Dir(name), ".")
	}
	return name
}

// hrefTo returns the address of one document for a link in another: relative, so that it holds below any prefix.
func hrefTo(from, to string) string {
	href := strings.Repeat("../", strings.Count(from, "/")) + to
	if href == "" {
		return "./"
	}
	return href
}

func (d *documents) render(files fs.FS, folder, file string) ([]byte, error) {
	source, err := fs.ReadFile(files, file)
	if err != nil {
		return nil, fmt.Errorf("read document %s: %w", file, err)
	}
	file = path.Join(folder, file)
	name := documentName(file)
	served := func(to string) bool { return d.pages[to] != nil }
	body, title, err := renderDocument(file, source, served)
	if err != nil {
		return nil, fmt.Errorf("render document %s: %w", file, err)
	}
	return frame(name, title, body), nil
}

// frame puts the body of a document, or of an answer in place of one, into a page.
func frame(name, title string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s · Sagalog</title>
<link rel="icon" href="%s" type="image/svg+xml">
<link rel="stylesheet" href="%s">
</head>
<body>
<nav aria-label="documents"><a href="%s">Sagalog</a> <a href="%s">Documents</a></nav>
<main>
%s</main>
</body>
</html>
`, html.EscapeString(title), hrefTo(name, "../icon.svg"), hrefTo(name, styleName), hrefTo(name, "../"), hrefTo(name, listName), body)
	return b.Bytes()
}

// serve answers a request for the document of this name. The caller has checked the method and set the policy.
func (d *documents) serve(w http.ResponseWriter, r *http.Request, name string) {
	if name == styleName {
		answer(w, r, "text/css; charset=utf-8", documentsStyle)
		return
	}
	page := d.pages[strings.TrimSuffix(name, ".md")]
	if page == nil {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(frame(name, "Not found", []byte(`<h1>Not found</h1><p>There is no such document. <a href="`+hrefTo(name, listName)+`">The list of all documents</a></p>`)))
		return
	}
	content, err := page()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, r, "text/html; charset=utf-8", content)
}

// answer sends content that changes only with the program: a browser asks whether it has changed, and reads it again only then.
func answer(w http.ResponseWriter, r *http.Request, kind string, content []byte) {
	sum := sha256.Sum256(content)
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	h.Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
