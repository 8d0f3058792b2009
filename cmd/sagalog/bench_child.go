package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// orphanWait is how long a process whose benchmark is gone may take to end cleanly. It is longer than leaving the groups takes.
const orphanWait = 10 * time.Second

// parent is the pipe from the benchmark that started this process. It closes when the benchmark ends, even by kill -9,
// and then this process ends, too.
type parent struct{ io.Reader }

func (p parent) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if err != nil {
		time.AfterFunc(orphanWait, func() { os.Exit(1) })
	}
	return n, err
}

// untilParentEnds returns a context that ends with the benchmark that started this process.
func untilParentEnds(ctx context.Context) context.Context {
	ctx, stop := context.WithCancel(ctx)
	// Nobody waits for this goroutine: nothing can interrupt a read from a pipe, and the process ends with the context.
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, parent{os.Stdin}) // any error ends it too
	}()
	return ctx
}

// benchNode is `sagalog serve` for bench takeover. It also ends with the process that started it.
func benchNode() *cobra.Command {
	var c serveConfig
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "Run sagalog serve until the end of its input: a node of a benchmark, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.partitionsSet = cmd.Flags().Changed("partitions")
			return runServe(untilParentEnds(cmd.Context()), c)
		},
	}
	c.flags(cmd.Flags())
	return cmd
}
