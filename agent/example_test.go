package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

// runOne runs one task of a workflow with the agents of a registry, on an engine in this process, and prints how it ended.
func runOne(definition string, agents *agent.Registry, input string) {
	e, stop := sagalogtest.Open()
	defer stop()
	e.Apply(definition)
	e.Serve(agents)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	task, err := e.Client().Run(ctx, client.Submission{Workflow: "example", Input: json.RawMessage(input)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.State, string(task.Output))
}

type shipment struct {
	Weight int `json:"weight"`
}

func ExampleHandle() {
	agents := agent.NewRegistry()
	agent.Handle(agents, "courier", func(ctx context.Context, p shipment) (string, error) {
		if p.Weight > 30 {
			return "", agent.NoEffect(agent.Permanent(fmt.Errorf("%d kg are too heavy", p.Weight)))
		}
		return "collected", nil
	}, agent.Concurrency(64), agent.WithUndo(func(ctx context.Context, u agent.Undo[shipment, string]) error {
		// u.Output is nil if it is not known whether the parcel was collected.
		return nil
	}))
	const definition = `
workflow: example
steps:
  collect: {agent: courier, undo: {}}
output: "${ steps.collect.output }"
`
	runOne(definition, agents, `{"weight": 3}`)
	runOne(definition, agents, `{"weight": 31}`)
	// Output:
	// processed "collected"
	// undone
}

func ExampleHandleOperation() {
	agents := agent.NewRegistry()
	agent.HandleOperation(agents, "bank", "authorize", func(_ context.Context, amount int) (string, error) { return "hold-1", nil })
	agent.HandleOperation(agents, "bank", "capture", func(_ context.Context, hold string) (string, error) { return "captured " + hold, nil })
	runOne(`
workflow: example
steps:
  authorize: {agent: bank, operation: authorize}
  capture: {needs: [authorize], agent: bank, operation: capture, with: "${ steps.authorize.output }"}
output: "${ steps.capture.output }"
`, agents, `12`)
	// Output: processed "captured hold-1"
}

func ExampleProgress() {
	agents := agent.NewRegistry()
	agent.Handle(agents, "painter", func(ctx context.Context, walls int) (string, error) {
		var done int
		if _, err := agent.LastProgress(ctx, &done); err != nil { // of an earlier attempt
			return "", err
		}
		for ; done < walls; done++ {
			if err := agent.Progress(ctx, done); err != nil {
				return "", err // the attempt is over
			}
		}
		return fmt.Sprint(done, " walls"), nil
	})
	runOne(`
workflow: example
steps:
  paint: {agent: painter, heartbeat: 1m, complete_within: 8h}
output: "${ steps.paint.output }"
`, agents, `4`)
	// Output: processed "4 walls"
}

func ExampleDial() {
	e, stop := sagalogtest.Open() // in production it is elsewhere
	defer stop()
	e.Apply("workflow: example\nsteps:\n  greet: {agent: host}\n")
	agents := agent.NewRegistry()
	agent.Handle(agents, "host", func(_ context.Context, name string) (string, error) { return "Hello, " + name, nil })

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := agent.Dial(ctx, agents, agent.DialConfig{Brokers: e.Brokers()}) // such as 127.0.0.1:9092
	if err != nil {
		fmt.Println(err)
		return
	}
	serving, end := context.WithCancel(ctx) // in production: signal.NotifyContext
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(serving) }()
	task, err := e.Client().Run(ctx, client.Submission{Workflow: "example", Input: json.RawMessage(`"Ada"`)})
	if err == nil {
		fmt.Println(task.State, string(task.Step("greet").Output))
	}
	end()
	fmt.Println(<-ended)
	// Output:
	// processed "Hello, Ada"
	// <nil>
}
