package helm

import (
	"embed"
	"io/fs"
)

//go:embed all:sagalog
var files embed.FS

// Chart returns the files of the chart, from its root on.
func Chart() fs.FS {
	chart, err := fs.Sub(files, "sagalog")
	if err != nil {
		panic(err) // the name is a constant
	}
	return chart
}
