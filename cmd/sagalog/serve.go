package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"regexp"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/traces"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// serveConfig holds the flags of serve. doctor takes all of them, so that it checks the same settings
// that serve would use.
type serveConfig struct {
	member
	engineFlags
	startWithin time.Duration
	metrics     string
}

// engineFlags are the flags that serve and dev share.
type engineFlags struct {
	accessFlags
	webhookFlags
	checkpointFlags
	workflows, pprof string
	hosts            []string

	partitions    int32
	partitionsSet bool
	quiet         bool
	keepInputs    bool
	settings      events.Settings
	settingsSet   []string
	sweep         time.Duration
}

func (c *engineFlags) flags(f *pflag.FlagSet) {
	c.settings = events.DefaultSettings()
	f.StringVar(&c.workflows, "workflows", "", "directory of workflows (*.yaml, *.json); those that are not known yet are applied at the start")
	f.Int32Var(&c.partitions, "partitions", 8, "`number` of partitions of a new namespace; fixed from then on")
	f.BoolVar(&c.quiet, "quiet", false, "print no banner, and log errors only")
	f.DurationVar(&c.sweep, "sweep", 0, "interval of the search for due timers (default 50ms)")
	f.BoolVar(&c.keepInputs, "keep-inputs", false, "delete no submissions, reports and work requests that nobody needs any more, for tools that compare all of them with the log")
	f.StringVar(&c.pprof, "pprof", "", "where profiles are served, such as 127.0.0.1:6060 (off by default)")
	f.StringSliceVar(&c.hosts, "host", nil, "further name by which clients call the HTTP API or --metrics, such as that of a proxy; requests to other names are refused, except to localhost and IP addresses")
	c.accessFlags.flags(f)
	c.webhookFlags.flags(f)
	c.checkpointFlags.flags(f)
	settingFlags(f, &c.settings)
}

func (c *engineFlags) validate() error {
	if c.partitions < 1 || c.partitions > 1000 {
		return usage("--partitions %d is not from 1 to 1000", c.partitions)
	}
	if c.sweep < 0 {
		return usage("--sweep %s is negative", c.sweep)
	}
	for _, h := range c.hosts {
		if !hostName.MatchString(h) {
			return usage("--host %q is not the name of a host, such as sagalog.example: give it without scheme and port", h)
		}
	}
	if err := c.accessFlags.validate(); err != nil {
		return err
	}
	if err := errors.Join(c.webhookFlags.validate(), c.checkpointFlags.validate()); err != nil {
		return err
	}
	return checkSettings(&c.settings)
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?$`)

// member holds the flags that identify this process and its place.
type member struct {
	connection
	callbacks
	sealFlags
	httpTLS
	namespace, data, http, advertise, node, agents string
	roleNames                                      []string

	roles roles
}

func (m *member) flags(f *pflag.FlagSet) {
	m.connection.flags(f)
	m.callbacks.flags(f)
	m.sealFlags.flags(f)
	m.httpTLS.flags(f)
	f.StringVar(&m.namespace, "namespace", events.DefaultNamespace, "prefix of all topic names; each engine has its own")
	f.StringVar(&m.data, "data", "./sagalog-data", "directory of this process's state; not shared with any other")
	f.StringVar(&m.http, "http", api.DefaultAddr, "where the HTTP API listens (port 0 takes a free one)")
	f.StringVar(&m.advertise, "advertise", "", "HOST:PORT by which other nodes reach the API (default the address of --http; required if that is every address, 0.0.0.0)")
	f.StringSliceVar(&m.roleNames, "roles", allRoles, "roles of this process: owner (takes its share of the partitions), agent, api, projector (follows the partitions of others too)")
	f.StringVar(&m.node, "node", "", "name of this process, the same at each start and unique among those running (default the host's)")
	f.StringVar(&m.agents, "agents", "", "directory of agents without code (*.yaml): HTTP services and commands, for the role agent")
}

func serveCommand() *cobra.Command {
	var c serveConfig
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node of the engine on a Kafka cluster",
		Long: `Run a node of the engine on a Kafka cluster. Start as many as you like, each with its own --node and --data: they
share the partitions, and when one stops or dies, the others take over its partitions.

At the start it checks the cluster and creates missing topics. If the setup could lose accepted tasks, it refuses to start and
says what to change. ` + "`sagalog doctor`" + ` takes the same flags, runs the same checks, and changes nothing.

A process that has only the role agent needs no data directory: it runs just the agents of --agents.

Give a password in the variable SAGALOG_SASL_PASSWORD or in a file: everyone on the machine can see flags.

` + traces.Variables,
		Example: `  sagalog serve --brokers 127.0.0.1:9092
  sagalog serve --brokers k1:9092,k2:9092,k3:9092 --node n1 --data /var/lib/sagalog --http 0.0.0.0:8642 --advertise n1:8642 \
      --tokens tokens.json --node-key-file node.key
  sagalog serve --brokers k1:9093 --tls-ca ca.pem --sasl SCRAM-SHA-512 --sasl-user sagalog --sasl-password-file /run/secrets/kafka
  sagalog serve --brokers k1:9092 --roles agent --agents ./agents --node agents-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.partitionsSet = cmd.Flags().Changed("partitions") // from the command line or its variable
			c.settingsSet = settingsGiven(cmd.Flags())
			return runServe(cmd.Context(), c)
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

func (c *serveConfig) flags(f *pflag.FlagSet) {
	c.member.flags(f)
	c.engineFlags.flags(f)
	f.StringVar(&c.metrics, "metrics", "", "address where a process with only the role agent serves /metrics and /healthz, such as 127.0.0.1:8650 (default off; other processes serve them at --http)")
	f.DurationVar(&c.startWithin, "start-within", time.Minute, "how long a start, all its steps together, waits for brokers that do not answer yet")
}

func (c *serveConfig) validate() error {
	if err := c.member.validate(); err != nil {
		return err
	}
	if err := c.engineFlags.validate(); err != nil {
		return err
	}
	if c.roles.node.API && exposed(c.http) && !c.on() {
		return usage("other machines can reach the HTTP API (--http %s), so callers must be known: %s", c.http, openRemedy)
	}
	if c.startWithin <= 0 {
		return usage("--start-within %s is not positive", c.startWithin)
	}
	if c.metrics != "" {
		if _, _, err := net.SplitHostPort(c.metrics); err != nil {
			return usage("--metrics %q is not HOST:PORT, such as 127.0.0.1:8650", c.metrics)
		}
		if !c.roles.agentOnly() {
			return usage("--metrics is for a process with only the role agent: this one serves /metrics at --http %s", c.http)
		}
	}
	if c.roles.agentOnly() {
		switch {
		case c.agents == "":
			return usage("--agents is missing: a process with --roles agent runs nothing else")
		case c.workflows != "":
			return usage("--workflows needs one of the roles owner, api, projector: a process with only agents applies no workflows")
		}
	}
	return nil
}

var (
	// a node's name is part of client IDs and of the broker's metrics
	nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	// A namespace is the prefix of topic names, the longest of which ends in ".work." and an agent's name of up to 64 characters.
	namespaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
)

func (m *member) validate() (err error) {
	if m.roles, err = parseRoles(m.roleNames); err != nil {
		return err
	}
	if m.node == "" {
		// if there is no host name, the message below asks for the flag
		m.node, _ = os.Hostname()
	}
	if !nodeName.MatchString(m.node) {
		return usage("--node %q is not a valid name: use up to 63 letters, digits, dots, dashes and underscores, such as --node n1", m.node)
	}
	if !namespaceName.MatchString(m.namespace) {
		return usage("--namespace %q cannot begin the names of topics: use up to 100 letters, digits, dots, dashes and underscores", m.namespace)
	}
	if m.agents != "" && !m.roles.agent {
		return usage("--agents needs the role agent, but --roles is %s", m.roles)
	}
	if err := m.callbacks.validate(); err != nil {
		return err
	}
	if err := m.httpTLS.validate(); err != nil {
		return err
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
			return usage("--http %s listens on every address of this machine, so other nodes do not know which one to use: add --advertise HOST:PORT", m.http)
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

// cluster returns how to reach the cluster. The brokers see the node's name.
func (m *member) cluster(log *slog.Logger) (kafka.ClusterConfig, error) {
	cfg, err := m.config(log)
	cfg.ClientID = "sagalog-" + m.node
	cfg.Role = m.roles.String()
	if m.namespace != events.DefaultNamespace {
		cfg.Role += " --namespace " + m.namespace
	}
	return cfg, err
}

// exposed says whether other machines can reach the address.
func exposed(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && !isLoopback(host)
}
