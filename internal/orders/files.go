package orders

import (
	"embed"
	"io/fs"
)

//go:embed files
var embedded embed.FS

// Name is the name of the workflow.
const Name = "order"

// Files returns the example as a user would write it: workflow.yaml, tests/order.test.yaml and agents/payment.yaml.
func Files() fs.FS {
	sub, err := fs.Sub(embedded, "files")
	if err != nil {
		panic("orders: embedded files: " + err.Error())
	}
	return sub
}
