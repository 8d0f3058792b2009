package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
	root.SetOut(stdout)
	root.SetErr(stderr)
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) { cli.WithoutVariable(c.Flags(), f.Name) }) // SAGALOG_DATA and others are meant for sagalog
	}
	return cli.Execute(ctx, root, args)
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
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newLoad(), newFiles(), newAudit())
	return root
}
