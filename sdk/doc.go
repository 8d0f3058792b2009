// Package sdk holds what the README files of this folder say, so that a node can show them with the other documents where there is no
// internet. internal/ui serves them. It has no code: the packages of this folder are in other languages, and share none with the engine.
package sdk

import "embed"

// Files are the README files by their paths below this folder.
//
//go:embed README.md python/README.md typescript/README.md
var Files embed.FS
