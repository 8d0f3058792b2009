package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

const (
	exitError = 1
	exitUsage = 2
)

// usageError marks errors that the user can fix by writing the command differently.
type usageError struct{ error }

// faults are all the things that are wrong with the flags of a command.
type faults []error

// add adds a fault if wrong is true.
func (f *faults) add(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "dronedelivery: interrupted")
		return exitError
	}
	fmt.Fprintln(stderr, "dronedelivery:", err)
	if errors.As(err, new(usageError)) {
		fmt.Fprintln(stderr, "Run 'dronedelivery --help' for the commands.")
		return exitUsage
	}
	return exitError
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "dronedelivery",
		Short: "The drone-delivery example: five HTTP services, and deliveries to load an engine with",
		Example: `  # 1. The five services, each on a free port of 127.0.0.1, with some of them unreliable:
  dronedelivery serve --data ./services --refuse transport=0.05 --hang drone=0.005

  # 2. Their workflow and agent bindings, to be changed and loaded by sagalog:
  dronedelivery files ./drone-delivery

  # 3. A thousand deliveries, 100 a second:
  dronedelivery load --count 1000 --rate 100 | sagalog task submit --from -
  dronedelivery load --count 1000 --rate 100 --api http://127.0.0.1:8642

  # 4. What a service was asked to do, call by call (its URL is what serve printed):
  curl http://127.0.0.1:PORT/ledger

  # 5. Break it for 20 seconds, fix it sooner:
  curl -X PUT    http://127.0.0.1:PORT/fault -d '{"mode": "fail", "for": "20s", "rate": 0.5}'
  curl -X DELETE http://127.0.0.1:PORT/fault`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// Without RunE and Args cobra would show the help and exit 0 for an unknown sub-command.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError{unknownCommand(cmd, args[0])}
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%s: %w", cmd.Name(), err)}
	})
	root.AddCommand(newServe(), newLoad(), newFiles(), newAudit())
	return root
}

// unknownCommand names the nearest known command.
func unknownCommand(cmd *cobra.Command, name string) error {
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %q?", name, near[0])
	}
	return fmt.Errorf("unknown command %q", name)
}

// usage makes the errors of an argument check usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%s: %w", cmd.Name(), err)}
		}
		return nil
	}
}
