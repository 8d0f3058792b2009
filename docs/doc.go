// Package docs holds the documents of this folder, so that a node can show them where there is no internet. internal/ui serves them.
// It has no code: what a document says is for its readers, not for the program.
package docs

import "embed"

// Files are the documents by their paths below this folder, such as waiting.md and reference/cli.md. The pictures are left out: they are
// a megabyte, and show the page to those who do not have it before them.
//
//go:embed *.md reference/*.md examples/README.md
var Files embed.FS
