package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

// theEngine runs an engine with two workflows: greeting, and publish, which waits for a signal and then cannot be undone.
func theEngine() (e *sagalogtest.Engine, stop func()) {
	e, stop = sagalogtest.Open()
	e.Apply(`
workflow: greeting
steps:
  greet: {agent: host}
output: "${ steps.greet.output }"
`)
	e.Apply(`
workflow: publish
steps:
  review: {wait: {signal: decision}}
  print: {needs: [review], agent: press, pivot: true}
`)
	agents := agent.NewRegistry()
	agent.Handle(agents, "host", func(_ context.Context, name string) (string, error) { return "Hello, " + name + "!", nil })
	agent.Handle(agents, "press", func(context.Context, any) (any, error) { return nil, nil })
	e.Serve(agents)
	return e, stop
}

// withinMinutes is the context of an example.
func withinMinutes() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Minute)
}

func Example() {
	e, stop := theEngine()
	defer stop()
	ctx, cancel := withinMinutes()
	defer cancel()

	c, err := client.Open(e.URL()) // such as http://127.0.0.1:8642
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	task, err := c.Run(ctx, client.Submission{ID: "greeting-1", Workflow: "greeting", Input: json.RawMessage(`"Ada"`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.State, string(task.Output))
	// Output: processed "Hello, Ada!"
}

func ExampleKafka() {
	e, stop := theEngine()
	defer stop()
	ctx, cancel := withinMinutes()
	defer cancel()

	c, err := client.Kafka(ctx, e.Brokers()...) // such as 127.0.0.1:9092
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	receipt, err := c.Submit(ctx, client.Submission{ID: "greeting-1", Workflow: "greeting", Input: json.RawMessage(`"Ada"`)})
	if err != nil {
		fmt.Println(err) // if it is ErrUnavailable: submit again with the same ID
		return
	}
	fmt.Println(receipt.ID, "is durable at offset", receipt.Offset)
	// Output: greeting-1 is durable at offset 0
}

func ExampleHTTP() {
	e, stop := theEngine()
	defer stop()
	ctx, cancel := withinMinutes()
	defer cancel()

	c, err := client.HTTP(e.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for _, r := range c.SubmitAll(ctx, []client.Submission{
		{ID: "greeting-1", Workflow: "greeting", Input: json.RawMessage(`"Ada"`)},
		{ID: "greeting-2", Workflow: "greting"},
	}) {
		fmt.Println(r.ID, errors.Is(r.Err, client.ErrUnknownWorkflow))
	}
	// Output:
	// greeting-1 false
	// greeting-2 true
}

func ExampleEngine_Signal() {
	e, stop := theEngine()
	defer stop()
	ctx, cancel := withinMinutes()
	defer cancel()
	c := e.Client()

	// A signal may come before its task.
	if _, err := c.Signal(ctx, "book-1", client.Signal{Name: "decision", Payload: json.RawMessage(`"yes"`)}); err != nil {
		fmt.Println(err)
	}
	task, err := c.Run(ctx, client.Submission{ID: "book-1", Workflow: "publish"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.State, string(task.Step("review").Output))
	// Output: processed {"signal":"decision","payload":"yes"}
}

func ExampleEngine_Cancel() {
	e, stop := theEngine()
	defer stop()
	ctx, cancel := withinMinutes()
	defer cancel()
	c := e.Client()

	if _, err := c.Run(ctx, client.Submission{ID: "greeting-1", Workflow: "greeting", Input: json.RawMessage(`"Ada"`)}); err != nil {
		fmt.Println(err)
		return
	}
	_, err := c.Cancel(ctx, "greeting-1", client.Request{Reason: "nobody is there"})
	var refused *client.Error
	if errors.Is(err, client.ErrRefused) && errors.As(err, &refused) {
		fmt.Println("refused, as the task is", refused.State)
	}
	// Output: refused, as the task is processed
}

func ExampleEngine_List() {
	e, stop := theEngine()
	defer stop()
	ctx, cancel := withinMinutes()
	defer cancel()
	c := e.Client()

	for _, name := range []string{"Ada", "Bob"} {
		s := client.Submission{Workflow: "greeting", Input: json.RawMessage(fmt.Sprintf("%q", name)), Labels: map[string]string{"name": name}}
		if _, err := c.Run(ctx, s); err != nil {
			fmt.Println(err)
			return
		}
	}
	for task, err := range c.List(ctx, client.Query{Workflow: "greeting", Labels: map[string]string{"name": "Bob"}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(task.State, string(task.Output))
	}
	// Output: processed "Hello, Bob!"
}

func ExampleEngine_Retry() {
	e, stop := theEngine()
	defer stop()
	ctx, cancel := withinMinutes()
	defer cancel()
	c := e.Client()

	// Every parked task of a workflow, for instance when a service is back.
	for task, err := range c.List(ctx, client.Query{Workflow: "greeting", States: []client.State{client.StateParked}, Brief: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if _, err := c.Retry(ctx, task.ID, client.Retry{Reason: "the host is back"}); err != nil {
			fmt.Println(task.ID, err)
		}
	}
	fmt.Println("all are retried")
	// Output: all are retried
}
