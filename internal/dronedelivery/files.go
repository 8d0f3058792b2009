package dronedelivery

import (
	"embed"
	"io/fs"
)

//go:embed files
var embedded embed.FS

// Name is the name of the workflow.
const Name = "drone-delivery"

// Files returns the example as a user would write it: workflow.yaml, delivery.schema.json next to it, and
// agents/<service>.yaml.
func Files() fs.FS {
	sub, err := fs.Sub(embedded, "files")
	if err != nil {
		panic("dronedelivery: embedded files: " + err.Error())
	}
	return sub
}
