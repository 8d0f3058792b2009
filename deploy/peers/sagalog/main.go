// The program sagalog submits orders to an engine at ENGINE_URL by its HTTP API, and waits for their results. The five steps are
// workflows/five.yaml, and agents/*.yaml say which requests they make; Sagalog needs no worker program.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sagalog/sagalog/deploy/peers/load"
	"github.com/sagalog/sagalog/deploy/peers/steps"
)

// submission is the body of PUT /v1/tasks/{id}.
type submission struct {
	Workflow string         `json:"workflow"`
	Input    map[string]any `json:"input"`
}

// receipt is the answer to it.
type receipt struct {
	Token string `json:"token"`
}

// task is the answer to GET /v1/tasks/{id}.
type task struct {
	State  string     `json:"state"`
	Output steps.Made `json:"output"`
}

func main() {
	h, url := load.NewHTTP(), os.Getenv("ENGINE_URL")+"/v1/tasks/"
	load.Main(func(ctx context.Context, o steps.Order) (steps.Made, error) {
		var r receipt
		in := submission{"five", map[string]any{"customer": o.Customer, "amount": o.Amount}}
		if err := h.JSON(ctx, "PUT", url+o.ID, nil, in, &r); err != nil {
			return steps.Made{}, err
		}
		var t task
		for t.State == "" || t.State == "pending" || t.State == "processing" { // a request waits for a minute at most
			if err := h.JSON(ctx, "GET", url+o.ID+"?wait=60s&token="+r.Token, nil, nil, &t); err != nil {
				return steps.Made{}, err
			}
		}
		if t.State != "processed" {
			return steps.Made{}, fmt.Errorf("the task is %s", t.State)
		}
		return t.Output, nil
	})
}
