package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/spf13/cobra"
)

type serveFlags struct {
	data, host         string
	portBase           int
	refuse, hang, fail []string
	unkind, keepKeys   bool
	seed               uint64
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the five services until SIGINT or SIGTERM",
		Long: `Runs account, package, transport, drone and delivery, each on its own loopback port. Once all of them listen,
one JSON line {"services":{"package":"http://...",...}} goes to stdout and into DIR/endpoints.json.

Each service keeps DIR/<service>.ndjson, one line for each call it received, and is rebuilt from it on the next start,
even after kill -9. Do not use the directory of 'sagalog dev'.

--refuse, --hang and --fail break services permanently, at a rate from 0 to 1: refuse always answers 422 for that share of
the tasks; hang carries out that share of the calls but never answers them; fail answers 503 to that share of the calls. They
may be combined and repeated. Only --seed decides which calls are hit. GET, PUT and DELETE /fault of a service show,
begin and end faults while it runs.

--unkind makes the services as unkind as real ones may be. A sixth of the calls fail before their effect or after it, break
their connection after it, cut the answer, or take effect after the answer. A do that comes after its undo is carried out; an
undo of nothing is answered 404; a third of the repeated keys are refused with 409.`,
		Example: `  dronedelivery serve --data ./services
  dronedelivery serve --data ./services --port-base 7100 --refuse transport=0.1 --refuse package=0.02 --hang transport=0.005`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "dronedelivery-data", "directory of the ledgers")
	flags.StringVar(&f.host, "host", "127.0.0.1", "loopback address to listen on")
	flags.IntVar(&f.portBase, "port-base", 0,
		"first of five ports in the order account, package, transport, drone, delivery; 0 picks free ones")
	flags.StringArrayVar(&f.refuse, "refuse", nil, "`SERVICE=RATE`: always refuse this share of the tasks")
	flags.StringArrayVar(&f.hang, "hang", nil, "`SERVICE=RATE`: never answer this share of the calls")
	flags.StringArrayVar(&f.fail, "fail", nil, "`SERVICE=RATE`: answer 503 to this share of the calls")
	flags.BoolVar(&f.unkind, "unkind", false, "break rules that real services break")
	flags.BoolVar(&f.keepKeys, "keep-keys", false, "with --unkind: remember keys after their undo")
	flags.Uint64Var(&f.seed, "seed", 1, "seed that decides which tasks and calls are hit")
	return cmd
}

func serve(cmd *cobra.Command, f serveFlags) error {
	faults, err := f.faults()
	if err != nil {
		return cli.Usage("serve: %w", err)
	}
	fleet, err := dronedelivery.New(dronedelivery.Config{
		Dir:    f.data,
		Addr:   net.JoinHostPort(f.host, strconv.Itoa(f.portBase)),
		Faults: faults,
		Unkind: f.unkind, KeepKeys: f.keepKeys,
		Seed: f.seed,
		Log:  slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
	})
	if err != nil {
		return cli.Usage("serve: %w", err)
	}
	if err := fleet.Listen(); err != nil {
		return err
	}
	line, err := json.Marshal(map[string]map[string]string{"services": fleet.URLs()})
	if err == nil {
		line = append(line, '\n')
		err = writeEndpoints(f.data, line)
	}
	if err == nil {
		_, err = cmd.OutOrStdout().Write(line)
	}
	if err != nil {
		return errors.Join(err, fleet.Close())
	}
	return fleet.Run(cmd.Context())
}

// faults reads the flags SERVICE=RATE. Service names are checked by dronedelivery.New, with all other faults.
func (f serveFlags) faults() (map[string][]dronedelivery.Fault, error) {
	all := map[string][]dronedelivery.Fault{}
	for mode, list := range map[dronedelivery.Mode][]string{
		dronedelivery.Refuse: f.refuse, dronedelivery.Hang: f.hang, dronedelivery.Fail: f.fail,
	} {
		for _, s := range list {
			service, text, ok := strings.Cut(s, "=")
			rate, err := strconv.ParseFloat(text, 64)
			if !ok || err != nil {
				return nil, fmt.Errorf("--%s %q is not SERVICE=RATE, such as transport=0.1", mode, s)
			}
			// In a Fault zero means always; on a command line it means never.
			if rate != 0 {
				all[service] = append(all[service], dronedelivery.Fault{Mode: mode, Rate: rate, Seed: f.seed})
			} else if len(all[service]) == 0 {
				all[service] = nil
			}
		}
	}
	return all, nil
}
