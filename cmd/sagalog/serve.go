package main

import (
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// serveConfig is the flags of serve. doctor takes them all, so that it looks at what serve would use.
type serveConfig struct {
	member
	workflows, pprof string

	partitions    int32
	partitionsSet bool
	quiet         bool
	settings      events.Settings
	sweep         time.Duration
}

// member is the flags that say which process this is, and where.
type member struct {
	connection
	namespace, data, http, advertise, node, agents string
	roleNames                                      []string

	roles roles
}

func (m *member) flags(f *pflag.FlagSet) {
	m.connection.flags(f)
	f.StringVar(&m.namespace, "namespace", "sagalog", "what the names of all topics begin with; one engine each")
	f.StringVar(&m.data, "data", "./sagalog-data", "directory of this process's state; not shared with any other")
	f.StringVar(&m.http, "http", api.DefaultAddr, "where the HTTP API listens (port 0 takes a free one)")
	f.StringVar(&m.advertise, "advertise", "", "HOST:PORT by which other nodes reach the API (default where it listens; needed where that is every address, 0.0.0.0)")
	f.StringSliceVar(&m.roleNames, "roles", allRoles, "what this process does: owner (takes its share of the partitions), agent, api, projector (follows the partitions of others too)")
	f.StringVar(&m.node, "node", "", "name of this process, the same at each start and unique among the running ones (default the host's)")
	f.StringVar(&m.agents, "agents", "", "directory of HTTP agents (*.yaml), for the role agent")
}

func serveCommand() *cobra.Command {
	c := serveConfig{settings: events.DefaultSettings()}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node of the engine on a Kafka cluster",
		Long: `Run a node of the engine on a Kafka cluster. Start as many as you like, each with its own --node and --data: they
share the partitions, and when one ends or dies, the others take over what it had.

At the start it looks at the cluster, makes the topics that are missing, and refuses what could lose accepted tasks,
saying what to change. ` + "`sagalog doctor`" + ` takes the same flags, looks, and changes nothing.

A process with the role agent alone needs no data directory: it runs the agents of --agents and nothing else.

A password is best given in the variable SAGALOG_SASL_PASSWORD or in a file: everybody on the machine sees flags.`,
		Example: `  sagalog serve --brokers 127.0.0.1:9092
  sagalog serve --brokers k1:9092,k2:9092,k3:9092 --node n1 --data /var/lib/sagalog --http 0.0.0.0:8642 --advertise n1:8642
  sagalog serve --brokers k1:9093 --tls-ca ca.pem --sasl SCRAM-SHA-512 --sasl-user sagalog --sasl-password-file /run/secrets/kafka
  sagalog serve --brokers k1:9092 --roles agent --agents ./agents --node agents-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.partitionsSet = cmd.Flags().Changed("partitions") // from the command line or its variable
			return runServe(cmd.Context(), c)
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

func (c *serveConfig) flags(f *pflag.FlagSet) {
	c.member.flags(f)
	f.StringVar(&c.workflows, "workflows", "", "directory of workflows (*.yaml, *.json), applied at the start")
	f.Int32Var(&c.partitions, "partitions", 8, "partitions of a new namespace; fixed from then on")
	f.BoolVar(&c.quiet, "quiet", false, "print no banner, and log errors only")
	f.DurationVar(&c.sweep, "sweep", 0, "how often due timers are looked for (default 50ms)")
	f.StringVar(&c.pprof, "pprof", "", "where profiles are served, such as 127.0.0.1:6060 (off by default)")
	limitFlags(f, &c.settings)
}

func (c *serveConfig) validate() error {
	if err := c.member.validate(); err != nil {
		return err
	}
	if c.partitions < 1 || c.partitions > 1000 {
		return usage("--partitions %d is not from 1 to 1000", c.partitions)
	}
	if c.sweep < 0 {
		return usage("--sweep %s is negative", c.sweep)
	}
	if c.roles.agentOnly() {
		switch {
		case c.agents == "":
			return usage("--agents is missing: with --roles agent alone there is nothing else to run")
		case c.workflows != "":
			return usage("--workflows needs one of the roles owner, api, projector: a process with agents alone applies none")
		}
	}
	return checkLimits(&c.settings)
}

var (
	// A node's name is part of client IDs and of the broker's metrics.
	nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	// A namespace begins the names of topics, of which the longest ends in ".work." and an agent's name of up to 64.
	namespaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
)

func (m *member) validate() (err error) {
	if m.roles, err = parseRoles(m.roleNames); err != nil {
		return err
	}
	if m.node == "" {
		// Without a host name the message below asks for the flag.
		m.node, _ = os.Hostname()
	}
	if !nodeName.MatchString(m.node) {
		return usage("--node %q is no node name: letters, digits, dots, dashes and underscores, 63 at most, such as --node n1", m.node)
	}
	if !namespaceName.MatchString(m.namespace) {
		return usage("--namespace %q is no beginning of topic names: letters, digits, dots, dashes and underscores, 100 at most", m.namespace)
	}
	if m.agents != "" && !m.roles.agent {
		return usage("--agents needs the role agent, and --roles is %s", m.roles)
	}
	return m.validateAddress()
}

func (m *member) validateAddress() error {
	host, port, err := net.SplitHostPort(m.http)
	if err != nil || port == "" {
		return usage("--http %q is not HOST:PORT, such as %s", m.http, api.DefaultAddr)
	}
	if m.advertise == "" {
		if m.roles.node.API && everyAddress(host) {
			return usage("--http %s listens on every address of this machine, so other nodes cannot know which one to use: add --advertise HOST:PORT", m.http)
		}
		return nil
	}
	host, port, err = net.SplitHostPort(m.advertise)
	if err != nil || port == "" || port == "0" || everyAddress(host) {
		return usage("--advertise %q is not HOST:PORT by which other nodes reach this one, such as n1.example:8642", m.advertise)
	}
	return nil
}

func everyAddress(host string) bool {
	return host == "" || net.ParseIP(host).IsUnspecified()
}

// cluster returns how to reach the cluster; its brokers see the node's name.
func (m *member) cluster(log *slog.Logger) (kafka.ClusterConfig, error) {
	cfg, err := m.config(log)
	cfg.ClientID = "sagalog-" + m.node
	return cfg, err
}

// exposed says that other machines reach the address.
func exposed(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && !strings.EqualFold(host, "localhost") && !net.ParseIP(host).IsLoopback()
}
