package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use: "sagalog", Short: "An event-sourced Scheduler-Agent-Supervisor engine",
		SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(devCommand(), stateCommand())
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "sagalog:", err)
	var u *usageError
	if errors.As(err, &u) {
		return 2
	}
	return 1
}
