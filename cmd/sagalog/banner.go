package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/dronedelivery"
)

// banner prints the addresses and some commands to try. Each command works when it is pasted.
func (d *dev) banner(w io.Writer) {
	api := "http://" + d.node.Addr()
	self := invocation()
	fmt.Fprintf(w, "\nSagalog %s is running. Ctrl-C ends it; start it again on the same data and it continues.\n\n", version())
	fmt.Fprintf(w, "  Page        %s\n", api)
	fmt.Fprintf(w, "  HTTP API    %s/v1          (OpenAPI: %s/openapi.yaml)\n", api, api)
	fmt.Fprintf(w, "  Kafka       %s          (any Kafka client; topics sagalog.*)\n", d.broker.Addr())
	fmt.Fprintf(w, "  Data        %s\n", d.cfg.data)
	if d.gate != nil {
		fmt.Fprintf(w, "  Access      on: put your token into $%s for the commands below; curl needs -H \"Authorization: Bearer $%s\"\n", cli.TokenVariable, cli.TokenVariable)
	}
	fmt.Fprintf(w, "  Durability  %s\n", d.cfg.durability())
	if d.fleet == nil {
		fmt.Fprintf(w, "\nNo example runs (--demo none). Apply a workflow:\n\n  %s workflow apply FILE%s\n\n", self, d.apiFlag(api))
		return
	}
	urls := d.fleet.URLs()
	for i, name := range d.fleet.Services() {
		label := ""
		if i == 0 {
			label = "Services"
		}
		fmt.Fprintf(w, "  %-11s %-10s %s\n", label, name, urls[name])
	}
	if d.cfg.demo == demoOrders {
		d.ordersBanner(w, api)
		return
	}
	input, _ := json.Marshal(dronedelivery.Submission(1, 1).Input)
	fmt.Fprintf(w, "\nTry it, with the CLI, with curl, with kcat:\n\n")
	fmt.Fprintf(w, "  %s task submit%s -w drone-delivery --id delivery-1 --wait --input '%s'\n\n", self, d.apiFlag(api), input)
	fmt.Fprintf(w, "  curl -sS -X PUT %s/v1/tasks/delivery-2 -H 'Content-Type: application/json' -d '{\"workflow\":\"drone-delivery\",\"input\":%s}'\n\n", api, input)
	fmt.Fprintf(w, "  echo '{\"workflow\":\"drone-delivery\",\"input\":%s}' | kcat -P -b %s -t sagalog.submissions -k delivery-3\n\n", input, d.broker.Addr())
	fmt.Fprintf(w, "Break something, and watch deliveries be retried, undone or parked, and recover:\n\n")
	fmt.Fprintf(w, "  %s demo break drone --mode fail --for 20s%s      # retried, and undone if all attempts fail\n", self, d.apiFlag(api))
	fmt.Fprintf(w, "  %s demo break drone --mode refuse --for 20s%s    # undone\n", self, d.apiFlag(api))
	fmt.Fprintf(w, "  %s task list%s\n\n", self, d.apiFlag(api))
}

// shopAddr is where the shop of cmd/orders listens by default.
const shopAddr = "http://127.0.0.1:8700"

// ordersBanner says how to run the shop, which is a separate program, and how to break the payment service.
func (d *dev) ordersBanner(w io.Writer, api string) {
	self := invocation()
	fmt.Fprintf(w, "\nRun the shop in another terminal (it keeps its orders in ./orders.db; docs/orders.md describes it), and order something:\n\n")
	fmt.Fprintf(w, "  go run ./cmd/orders --db ./orders.db%s\n", d.apiFlag(api))
	fmt.Fprintf(w, "  curl -sS -X PUT %s/orders/order-1 -d '{\"customer\":\"anna\",\"cents\":1250}'\n", shopAddr)
	fmt.Fprintf(w, "  curl -sS %s/orders\n\n", shopAddr)
	fmt.Fprintf(w, "Break the payment service, order, and see the order get stuck; then repair it and retry:\n\n")
	fmt.Fprintf(w, "  %s demo break payment --mode fail --for 10m%s\n", self, d.apiFlag(api))
	fmt.Fprintf(w, "  curl -sS -X PUT %s/orders/order-2 -d '{\"customer\":\"ben\",\"cents\":700}'\n", shopAddr)
	fmt.Fprintf(w, "  curl -sS %s/orders/order-2\n", shopAddr)
	fmt.Fprintf(w, "  %s demo fix payment%s\n", self, d.apiFlag(api))
	fmt.Fprintf(w, "  %s task retry order-2%s\n\n", self, d.apiFlag(api))
}

// apiFlag returns the flag that a client command needs to find this engine, with a space before it. It returns ""
// if the default works.
func (d *dev) apiFlag(api string) string {
	if api == "http://127.0.0.1:8642" {
		return ""
	}
	return " --api " + api
}

// invocation returns how the user called this program, so that the commands in the banner can be
// pasted.
func invocation() string {
	exe, err := os.Executable()
	if err == nil && strings.Contains(exe, "go-build") {
		return "go run ./cmd/sagalog"
	}
	return os.Args[0]
}
