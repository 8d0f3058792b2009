// Command agent is the agent "bank" of the workflow purchase.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/sagalog/sagalog/agent"
)

type order struct {
	Price int `json:"price"`
}

// bank returns the agent. It calls pay with a key that is the same in all attempts, so that the service can drop duplicates.
func bank(pay func(key string, amount int) error) *agent.Registry {
	r := agent.NewRegistry()
	agent.Handle(r, "bank", func(ctx context.Context, o order) (string, error) {
		a, _ := agent.FromContext(ctx)
		if o.Price <= 0 {
			return "", agent.NoEffect(agent.Permanent(fmt.Errorf("the price is %d", o.Price)))
		}
		return "receipt of " + a.Task, pay(a.IdempotencyKey, o.Price)
	}, agent.WithUndo(func(ctx context.Context, u agent.Undo[order, string]) error {
		a, _ := agent.FromContext(ctx)
		return pay(a.IdempotencyKey, -u.Input.Price)
	}))
	return r
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	pay := func(key string, amount int) error { log.Print("paid ", amount, " under ", key); return nil }
	c, err := agent.Dial(ctx, bank(pay), agent.DialConfig{Brokers: []string{"127.0.0.1:9092"}})
	if err == nil {
		err = c.Run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
