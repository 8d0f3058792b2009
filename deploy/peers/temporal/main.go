// The program temporal runs the five steps on Temporal.
//
//	temporal worker    polls the server at ENGINE for workflow tasks and activities
//	temporal client    starts workflows there and waits for their results
//	temporal namespace    makes the namespace in which both work, and waits until it is known
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sagalog/sagalog/deploy/peers/load"
	"github.com/sagalog/sagalog/deploy/peers/steps"
)

const queue = "orders"

// five is the workflow. Each step is an activity.
func five(ctx workflow.Context, o steps.Order) (steps.Made, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 30 * time.Second})
	return steps.Five(o, func(c steps.Call) (steps.Made, error) {
		var made steps.Made
		return made, workflow.ExecuteActivity(ctx, c.Step, c.Task, c).Get(ctx, &made)
	})
}

func main() {
	quiet := sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	options := client.Options{HostPort: os.Getenv("ENGINE"), Logger: quiet}
	c, err := client.Dial(options)
	for start := time.Now(); err != nil && time.Since(start) < 2*time.Minute; c, err = client.Dial(options) {
		time.Sleep(100 * time.Millisecond) // the server listens before it answers
	}
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	switch os.Args[1] {
	case "namespace":
		if err := makeNamespace(c, options); err != nil {
			log.Fatal(err)
		}
	case "worker":
		if err := work(c); err != nil {
			log.Fatal(err)
		}
	case "client":
		load.Main(func(ctx context.Context, o steps.Order) (steps.Made, error) {
			var made steps.Made
			run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: o.ID, TaskQueue: queue}, five, o)
			if err != nil {
				return made, err
			}
			return made, run.Get(ctx, &made)
		})
	}
}

// work runs the worker. The numbers of pollers follow the load, as Temporal's guide to the performance of workers recommends.
func work(c client.Client) error {
	auto := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	w := worker.New(c, queue, worker.Options{WorkflowTaskPollerBehavior: auto, ActivityTaskPollerBehavior: auto})
	w.RegisterWorkflow(five)
	service := steps.NewService()
	for _, step := range steps.Names {
		w.RegisterActivityWithOptions(func(ctx context.Context, task string, call steps.Call) (steps.Made, error) {
			call.Step, call.Task = step, task
			return service.Do(ctx, call)
		}, activity.RegisterOptions{Name: step})
	}
	return w.Run(worker.InterruptCh())
}

// makeNamespace makes the default namespace, which the server knows some seconds later.
func makeNamespace(c client.Client, options client.Options) error {
	n, err := client.NewNamespaceClient(options)
	if err != nil {
		return err
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := n.Register(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: client.DefaultNamespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	}); err != nil {
		return err
	}
	for {
		_, err := c.DescribeTaskQueue(ctx, queue, enums.TASK_QUEUE_TYPE_WORKFLOW)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
