package sagalogtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

func ExampleStart() {
	// This is a test of your package. In a bubble a backoff of an hour takes seconds; without synctest.Test the engine runs in real time.
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := sagalogtest.Start(t)
			e.Apply("workflow: greeting\nsteps:\n  greet: {agent: host, retry: {attempts: 10, backoff: 1h}}\n")
			calls := 0
			agents := agent.NewRegistry()
			agent.Handle(agents, "host", func(_ context.Context, name string) (string, error) {
				if calls++; calls == 1 {
					return "", errors.New("the host is asleep")
				}
				return "Hello, " + name + "!", nil
			})
			e.Serve(agents)
			task, err := e.Client().Run(t.Context(), client.Submission{Workflow: "greeting", Input: json.RawMessage(`"Ada"`)})
			if err != nil || task.State != client.StateProcessed {
				t.Fatal(task, err)
			}
		})
	}
}

// A test calls Start(t), which ends the engine with the test, and needs no stop.
func ExampleOpen() {
	e, stop := sagalogtest.Open()
	defer stop()
	e.Apply(`
workflow: greeting
steps:
  greet: {agent: host}
output: "${ steps.greet.output }"
`)
	agents := agent.NewRegistry()
	agent.Handle(agents, "host", func(_ context.Context, name string) (string, error) { return "Hello, " + name + "!", nil })
	e.Serve(agents)

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	task, err := e.Client().Run(ctx, client.Submission{Workflow: "greeting", Input: json.RawMessage(`"Ada"`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.State, string(task.Output))
	// Output: processed "Hello, Ada!"
}
