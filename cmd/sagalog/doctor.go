package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/spf13/cobra"
)

// doctorConfig is the flags of doctor.
type doctorConfig struct {
	serveConfig
	output
}

func doctorCommand() *cobra.Command {
	c := doctorConfig{serveConfig: serveConfig{settings: events.DefaultSettings()}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether `serve` would work with the same flags, and say what to change",
		Long: `Look whether ` + "`sagalog serve`" + ` would work with the same flags: each broker, TLS, authentication, permissions, the
namespace and the settings of its topics, the copies in sync, the end of the log, the agents and workflows, the data
directory (whose it is, its format, its lock, free space), the address of the API, and the clock.

It changes nothing, makes no topics, and works before there is a namespace. It exits with 1 when a check fails; a
warning is something that works and that somebody should know. With --quiet it prints what is not ok.`,
		Example: `  sagalog doctor --brokers 127.0.0.1:9092
  sagalog doctor --brokers k1:9093 --tls-ca ca.pem --sasl SCRAM-SHA-512 --sasl-user sagalog --sasl-password-file /run/secrets/kafka -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.partitionsSet = cmd.Flags().Changed("partitions")
			findings, err := c.look(cmd.Context())
			if err != nil {
				return err
			}
			shown := findings
			if c.quiet {
				shown = slices.DeleteFunc(slices.Clone(findings), func(f kafka.Finding) bool { return f.Status == kafka.StatusOK })
			}
			if err := printRows(cmd.OutOrStdout(), c.output, shown, printFindings); err != nil {
				return err
			}
			return failing(findings)
		},
	}
	c.serveConfig.flags(cmd.Flags())
	cmd.Flags().Lookup("quiet").Usage = "print only what is not ok"
	c.output.flags(cmd.Flags())
	return cmd
}

func (c *doctorConfig) look(ctx context.Context) ([]kafka.Finding, error) {
	if err := errors.Join(c.output.validate(), c.serveConfig.validate()); err != nil {
		return nil, err
	}
	// The client's own log says less than the findings do.
	cfg, err := c.member.cluster(newLogger(true))
	if err != nil {
		return nil, err
	}
	cluster, err := kafka.Connect(cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	local := localCheck{serveConfig: &c.serveConfig, now: time.Now}
	agents := local.agents()
	local.workflows()
	local.data()
	local.address()
	local.clock()
	findings := kafka.Diagnose(ctx, cluster, local.need(cluster, agents))
	if plainPassword(cfg) {
		findings = append(findings, kafka.Finding{Check: kafka.CheckSecurity, Status: kafka.StatusWarn, What: plainPasswordText, Remedy: plainPasswordRemedy})
	}
	findings = append(findings, local.log(ctx, cluster)...)
	return append(findings, local.findings...), ctx.Err()
}

// printFindings aligns remedies under what they mend.
func printFindings(w io.Writer, findings []kafka.Finding) error {
	const margin = 19
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-5s %-12s %s\n", f.Status, f.Check, indented(f.What, margin)); err != nil {
			return err
		}
		if f.Remedy != "" {
			if _, err := fmt.Fprintf(w, "%*sremedy: %s\n", margin, "", indented(f.Remedy, margin)); err != nil {
				return err
			}
		}
	}
	return nil
}

func indented(text string, margin int) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", margin))
}

func failing(findings []kafka.Finding) error {
	count := map[kafka.Status]int{}
	for _, f := range findings {
		count[f.Status]++
	}
	summary := fmt.Sprintf("%d checks: %d ok, %d warn, %d fail", len(findings), count[kafka.StatusOK], count[kafka.StatusWarn], count[kafka.StatusFail])
	if count[kafka.StatusFail] > 0 {
		return errors.New(summary)
	}
	fmt.Fprintln(os.Stderr, summary)
	return nil
}
