package sagalogtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

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
