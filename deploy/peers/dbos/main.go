// The program dbos runs the five steps on DBOS, which is a library: the application is the engine, and Postgres keeps its state.
//
//	dbos worker    serves POST / at LISTEN: it starts a workflow, and answers with its result
//	dbos client    submits orders to ENGINE_URL
//
// DATABASE_URL is the system database.
package main

import (
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"net/http"
	"os"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/sagalog/sagalog/deploy/peers/load"
	"github.com/sagalog/sagalog/deploy/peers/steps"
)

var service = steps.NewService()

// five is the workflow. Each step is a step of DBOS.
func five(ctx dbos.Context, o steps.Order) (steps.Made, error) {
	return steps.Five(o, func(c steps.Call) (steps.Made, error) {
		return dbos.RunAsStep(ctx, func(ctx context.Context) (steps.Made, error) { return service.Do(ctx, c) }, dbos.WithStepName(c.Step))
	})
}

func main() {
	switch os.Args[1] {
	case "worker":
		if err := serve(); err != nil {
			log.Fatal(err)
		}
	case "client":
		h, url := load.NewHTTP(), os.Getenv("ENGINE_URL")
		load.Main(func(ctx context.Context, o steps.Order) (steps.Made, error) {
			var made steps.Made
			return made, h.JSON(ctx, "POST", url, nil, o, &made)
		})
	}
}

func serve() error {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{AppName: "orders", DatabaseURL: os.Getenv("DATABASE_URL"), Logger: quiet})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(ctx, five)
	if err := dbos.Launch(ctx); err != nil {
		return err
	}
	return http.ListenAndServe(os.Getenv("LISTEN"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made, err := start(ctx, r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(made); err != nil {
			log.Print(err) // the caller is gone
		}
	}))
}

// start runs the workflow of a request. The ID of the order is that of the workflow, so that a repeated request does not run it again.
func start(ctx dbos.Context, r *http.Request) (steps.Made, error) {
	var o steps.Order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		return steps.Made{}, err
	}
	run, err := dbos.RunWorkflow(ctx, five, o, dbos.WithWorkflowID(o.ID))
	if err != nil {
		return steps.Made{}, err
	}
	return run.GetResult()
}
