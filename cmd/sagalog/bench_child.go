package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/spf13/cobra"
)

// orphanWait is how long a process whose benchmark is gone may take to end in order: what it would still speak to is mostly
// gone too. It is longer than leaving the groups takes, and shorter than a person wonders.
const orphanWait = 10 * time.Second

// parent is the pipe from the benchmark that started this process. It ends with the benchmark, also by kill -9, and then
// this process does.
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
	// It is not waited for: nothing can interrupt a read of a pipe, and this process ends with the context.
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, parent{os.Stdin}) // any end of it is the end
	}()
	return ctx
}

// benchNode is `sagalog serve` for bench takeover: it ends with the process that started it, and not by itself.
func benchNode() *cobra.Command {
	c := serveConfig{settings: events.DefaultSettings()}
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
