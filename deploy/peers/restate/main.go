// The program restate runs the five steps on Restate.
//
//	restate worker    serves the handler at LISTEN, for a restate-server that knows it as a deployment
//	restate client    submits orders to the ingress at ENGINE_URL; each request waits for its result
package main

import (
	"context"
	"log"
	"log/slog"
	"os"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"

	"github.com/sagalog/sagalog/deploy/peers/load"
	"github.com/sagalog/sagalog/deploy/peers/steps"
)

// Orders is the Restate service. Each step is a durable step of the handler (restate.Run).
type Orders struct{ service *steps.Service }

func (h Orders) Five(ctx restate.Context, o steps.Order) (steps.Made, error) {
	return steps.Five(o, func(c steps.Call) (steps.Made, error) {
		return restate.Run(ctx, func(ctx restate.RunContext) (steps.Made, error) { return h.service.Do(ctx, c) }, restate.WithName(c.Step))
	})
}

func main() {
	switch os.Args[1] {
	case "worker":
		quiet := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
		s := server.NewRestate().WithLogger(quiet, true).Bind(restate.Reflect(Orders{steps.NewService()}))
		log.Fatal(s.Start(context.Background(), os.Getenv("LISTEN")))
	case "client":
		h, url := load.NewHTTP(), os.Getenv("ENGINE_URL")+"/Orders/Five"
		load.Main(func(ctx context.Context, o steps.Order) (steps.Made, error) {
			var made steps.Made
			return made, h.JSON(ctx, "POST", url, map[string]string{"Idempotency-Key": o.ID}, o, &made)
		})
	}
}
