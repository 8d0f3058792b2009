package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
)

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
	root.Flags().VisitAll(func(f *pflag.Flag) { cli.WithoutVariable(root.Flags(), f.Name) }) // SAGALOG_HTTP and others are meant for sagalog
	return cli.Execute(ctx, root, args)
}

// flags are the flags of the program.
type flags struct{ db, http, api, dieAt string }

func newRoot() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "orders",
		Short: "The shop of the example of order processing: orders in an SQL database, their payments as tasks",
		Long: `Takes orders over HTTP, writes each with the request for its task in one database transaction, and submits the
requests to an engine. Run the engine first: sagalog dev --demo orders`,
		Example: `  orders --db ./orders.db
  curl -X PUT http://127.0.0.1:8700/orders/order-1 -d '{"customer":"anna","cents":1250}'
  curl http://127.0.0.1:8700/orders`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, f) },
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	s := cmd.Flags()
	s.StringVar(&f.db, "db", "orders.db", "file of the SQLite database")
	s.StringVar(&f.http, "http", "127.0.0.1:8700", "where the shop listens, on loopback (port 0 takes a free one)")
	s.StringVar(&f.api, "api", "http://127.0.0.1:8642", "URL of the engine's API")
	s.StringVar(&f.dieAt, "die-at", "", "end the process like kill -9 at `STEP[:N]`, the Nth time that it comes there: "+strings.Join(steps, ", "))
	return cmd
}

// headerTimeout frees connections that never send a request.
const headerTimeout = 10 * time.Second

func serve(cmd *cobra.Command, f flags) (err error) {
	d, err := readDeath(f.dieAt)
	if err != nil {
		return cli.Usage("--die-at: %w", err)
	}
	host, _, err := net.SplitHostPort(f.http)
	if err != nil || !strings.EqualFold(host, "localhost") && !net.ParseIP(host).IsLoopback() {
		return cli.Usage("--http %q is not an address of loopback such as 127.0.0.1:8700, and the shop has no authentication", f.http)
	}
	producer, err := client.HTTPWith(client.HTTPConfig{URL: f.api, Token: os.Getenv(tokenVariable), RetryFor: -1})
	if err != nil {
		return cli.Usage("--api: %w", err)
	}
	defer producer.Close()
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	s, err := openStore(cmd.Context(), f.db, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	l, err := net.Listen("tcp", f.http)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the shop listens at http://%s\n", l.Addr())
	return work(cmd.Context(), parts{
		front: &front{store: s, tasks: tasks{api: f.api}, log: log}, listener: l,
		relay: &relay{store: s, producer: producer, log: log}, follower: &follower{store: s, tasks: tasks{api: f.api}, log: log},
	})
}

// parts are what the process runs.
type parts struct {
	front    *front
	listener net.Listener
	relay    *relay
	follower *follower
}

// work runs all parts until ctx ends.
func work(ctx context.Context, p parts) error {
	g, ctx := errgroup.WithContext(ctx)
	server := &http.Server{Handler: p.front.routes(), ReadHeaderTimeout: headerTimeout}
	g.Go(func() error {
		if err := server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			return server.Close()
		}
		return nil
	})
	g.Go(func() error { return p.relay.run(ctx) })
	g.Go(func() error { return p.follower.run(ctx) })
	return g.Wait()
}
