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

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/spf13/cobra"
)

// doctorConfig holds the flags of doctor.
type doctorConfig struct {
	serveConfig
	output
}

func doctorCommand() *cobra.Command {
	var c doctorConfig
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether `serve` would work with the same flags, and say what to change",
		Long: `Check whether ` + "`sagalog serve`" + ` would work with the same flags: each broker, TLS, authentication, permissions, the
namespace and the settings of its topics, in-sync replicas, the end of the log, the agents and workflows, the data
directory (its node, format, lock and free space), the address of the API, and the clock. It also says which nodes run now.

It changes nothing, creates no topics, and works before the namespace exists. It exits with 1 if a check fails. A warning is about
something that works but that you should know. With --quiet it prints only warnings and failures.`,
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
				shown = slices.DeleteFunc(slices.Clone(findings), func(f doctor.Finding) bool { return f.Status == doctor.StatusOK })
			}
			if err := printRows(cmd.OutOrStdout(), c.output, shown, printFindings); err != nil {
				return err
			}
			return failing(findings)
		},
	}
	c.serveConfig.flags(cmd.Flags())
	cmd.Flags().Lookup("quiet").Usage = "print only warnings and failures"
	c.output.flags(cmd.Flags())
	return cmd
}

func (c *doctorConfig) look(ctx context.Context) ([]doctor.Finding, error) {
	if err := errors.Join(c.output.validate(), c.serveConfig.validate()); err != nil {
		return nil, err
	}
	// the findings say more than the client's log
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
	local.files()
	local.webhook()
	local.clock()
	local.traces()
	findings := doctor.Diagnose(ctx, cluster, local.need(cluster, agents))
	if plainPassword(cfg) {
		findings = append(findings, doctor.Finding{Check: doctor.CheckSecurity, Status: doctor.StatusWarn, What: plainPasswordText, Remedy: plainPasswordRemedy})
	}
	findings = append(findings, local.log(ctx, cluster)...)
	findings = append(findings, local.transactions(ctx, cluster)...)
	nodes, running := local.running(ctx, cluster)
	local.address(ctx, nodes)
	findings = append(findings, running...)
	findings = append(findings, local.level(ctx, cluster)...)
	findings = append(findings, local.unnamed(ctx, cluster)...)
	findings = append(findings, local.unserved(ctx, cluster)...)
	return append(findings, local.findings...), ctx.Err()
}

// printFindings prints each remedy under its finding.
func printFindings(w io.Writer, findings []doctor.Finding) error {
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

func failing(findings []doctor.Finding) error {
	count := map[doctor.Status]int{}
	for _, f := range findings {
		count[f.Status]++
	}
	summary := fmt.Sprintf("%s: %d ok, %d warn, %d fail", cli.Counted(len(findings), "check"), count[doctor.StatusOK], count[doctor.StatusWarn], count[doctor.StatusFail])
	if count[doctor.StatusFail] > 0 {
		return errors.New(summary)
	}
	fmt.Fprintln(os.Stderr, summary)
	return nil
}
