// Command producer buys something, approves it and waits for the receipt.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sagalog/sagalog/scheduler/client"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Open("http://127.0.0.1:8642")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Submit(ctx, client.Submission{ID: "p-1", Workflow: "purchase", Input: []byte(`{"price": 12}`)}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Signal(ctx, "p-1", client.Signal{Name: "approval", Payload: []byte(`{"by": "ada"}`)}); err != nil {
		log.Fatal(err)
	}
	task, err := c.Wait(ctx, "p-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.State, string(task.Output)) // processed "receipt of p-1"
}
