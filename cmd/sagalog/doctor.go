package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/spf13/cobra"
)

// doctorConfig is the flags of doctor.
type doctorConfig struct {
	member
	output
	partitions int32
}

func doctorCommand() *cobra.Command {
	var c doctorConfig
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether `serve` would work with the same flags, and say what to change",
		Long: `Look whether ` + "`sagalog serve`" + ` would work with the same flags: each broker, TLS, authentication, permissions, the
namespace and the settings of its topics, the copies in sync, the data directory, the address of the API.

It changes nothing, makes no topics, and works before there is a namespace. It exits with 1 when a check fails; a
warning is something that works and that somebody should know.`,
		Example: `  sagalog doctor --brokers 127.0.0.1:9092
  sagalog doctor --brokers k1:9093 --tls-ca ca.pem --sasl SCRAM-SHA-512 --sasl-user sagalog --sasl-password-file /run/secrets/kafka -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings, err := c.look(cmd.Context())
			if err != nil {
				return err
			}
			if err := printRows(cmd.OutOrStdout(), c.output, findings, printFindings); err != nil {
				return err
			}
			return failing(findings)
		},
	}
	f := cmd.Flags()
	c.member.flags(f)
	c.output.flags(f)
	f.Int32Var(&c.partitions, "partitions", 8, "partitions of a new namespace")
	return cmd
}

func (c *doctorConfig) look(ctx context.Context) ([]kafka.Finding, error) {
	if err := errors.Join(c.output.validate(), c.member.validate()); err != nil {
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
	local := localCheck{member: &c.member}
	var namespaceID string
	need := c.need(cluster, local.agents(), func(id string) { namespaceID = id })
	need.Partitions = c.partitions
	findings := kafka.Diagnose(ctx, cluster, need)
	if plainPassword(cfg) {
		findings = append(findings, kafka.Finding{Check: kafka.CheckSecurity, Status: kafka.StatusWarn, What: plainPasswordText, Remedy: plainPasswordRemedy})
	}
	local.data(namespaceID)
	local.address()
	return append(findings, local.findings...), ctx.Err()
}

// need is what this process wants of the cluster. found is given the ID of the namespace, where there is one.
func (m *member) need(cluster *kafka.Cluster, agents []string, found func(id string)) kafka.Need {
	return kafka.Need{
		Topics: kafka.Topics{Namespace: m.namespace}, Agents: agents,
		Owner: m.roles.node.Owner, API: m.roles.node.API, Projector: m.roles.node.Projector,
		Made: func(ctx context.Context) (int32, error) {
			ns, err := node.ReadNamespace(ctx, cluster, m.namespace)
			var empty *kafka.OutOfRangeError
			if errors.As(err, &empty) || errors.Is(err, kafka.ErrNoRecord) || errors.Is(err, kafka.ErrUnknownTopic) {
				return 0, nil
			}
			found(ns.ID)
			return ns.Partitions, err
		},
	}
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
