package main

import (
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/acls"
	"github.com/spf13/cobra"
)

// aclsConfig holds the flags of `sagalog generate acls`.
type aclsConfig struct {
	roleNames, agents, replies, brokers       []string
	principal, namespace, adminConfig, format string

	roles []acls.Role
}

var aclsFormats = []string{"commands", "json", "yaml"}

func generateACLs() *cobra.Command {
	var c aclsConfig
	cmd := &cobra.Command{
		Use: "acls", Short: "Print the permissions that a role needs on a Kafka cluster with access lists", Args: cobra.NoArgs,
		Long: `Print the permissions that a role needs on a Kafka cluster with access lists (ACLs): all that it needs and nothing else, with the reason
for each. By default these are commands of Kafka, one a line, for an administrator to run. A line that says (optional) may be left out, at
the cost that it names.

A node with several roles needs the lines of each. Kafka clusters older than 3.0 must also allow IdempotentWrite on the cluster
to everyone who writes.

  owner      a node that takes its share of the partitions
  api        a node that serves HTTP
  projector  a node that follows partitions
  webhook    what a node with the role owner needs in addition for --webhook
  sealing    what nodes and agents need in addition for --seal-key-file
  agent      a process that runs agents, in any language
  producer   a program that submits tasks to Kafka directly
  reader     sagalog verify, sagalog task history --from-log, and programs that read the log
  copier     sagalog namespace copy and reopen, of the old namespace and of the new one`,
		Example: `  sagalog generate acls --role owner,api,projector --principal User:sagalog --brokers k1:9092 --command-config admin.properties | sh
  sagalog generate acls --role agent --agent pack --principal User:pack
  sagalog generate acls --role producer --principal User:shop -o yaml | kubectl apply -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			return c.print(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.roleNames, "role", nil, "roles of the process: "+strings.Join(roleNames(), ", ")+" (required)")
	f.StringVar(&c.principal, "principal", "", "whom the permissions are for, such as User:sagalog (required)")
	f.StringVar(&c.namespace, "namespace", events.DefaultNamespace, "prefix of all topic names")
	f.StringSliceVar(&c.agents, "agent", nil, "agents that the process runs, for the role agent (default every agent of the namespace)")
	f.StringSliceVar(&c.replies, "reply-topic", nil, "topics in which submitters ask for replies, as the setting reply_topics has them, for the role owner")
	f.StringSliceVar(&c.brokers, "brokers", []string{"127.0.0.1:9092"}, "HOST:PORT of some brokers, for the commands")
	f.StringVar(&c.adminConfig, "command-config", "", "file with the administrator's settings of Kafka, for the commands")
	f.StringVarP(&c.format, "output", "o", aclsFormats[0], "commands, json, or yaml (a KafkaUser of Strimzi)")
	return cmd
}

func roleNames() []string {
	names := make([]string, len(acls.Roles))
	for i, r := range acls.Roles {
		names[i] = string(r)
	}
	return names
}

var (
	principalName = regexp.MustCompile(`^[A-Za-z]+:[^\x00-\x1f]+$`)
	// kubernetesName is what metadata.name of a KafkaUser may be.
	kubernetesName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	shellWord      = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,\[\]-]+$`)
)

func (c *aclsConfig) validate() error {
	if len(c.roleNames) == 0 {
		return usage("--role is missing: one or more of %s", strings.Join(roleNames(), ", "))
	}
	for _, name := range c.roleNames {
		r := acls.Role(strings.TrimSpace(name))
		if !slices.Contains(acls.Roles, r) {
			return usage("--role: unknown role %q; %s", name, events.Suggest(name, roleNames()))
		}
		c.roles = append(c.roles, r)
	}
	switch {
	case c.principal == "":
		return usage("--principal is missing: whom the permissions are for, such as --principal User:sagalog")
	case !principalName.MatchString(c.principal):
		return usage("--principal %q is not TYPE:NAME, such as User:sagalog", c.principal)
	case !namespaceName.MatchString(c.namespace):
		return usage("--namespace %q cannot begin the names of topics: use up to 100 letters, digits, dots, dashes and underscores", c.namespace)
	case !slices.Contains(aclsFormats, c.format):
		return usage("-o %q is not known; %s", c.format, events.Suggest(c.format, aclsFormats))
	case len(c.agents) > 0 && !slices.Contains(c.roles, acls.Agent):
		return usage("--agent needs --role agent")
	case len(c.replies) > 0 && !slices.Contains(c.roles, acls.Owner):
		return usage("--reply-topic needs --role owner")
	case c.format == "yaml" && !kubernetesName.MatchString(c.user()):
		return usage("--principal %q cannot name a KafkaUser: use small letters, digits, dots and dashes", c.principal)
	}
	for _, r := range c.replies {
		if !namespaceName.MatchString(strings.TrimSuffix(r, "*")) {
			return usage("--reply-topic %q is not the name of a topic, or the beginning of names that ends in a star", r)
		}
	}
	for _, a := range c.agents {
		if !namespaceName.MatchString(a) {
			return usage("--agent %q is not the name of an agent: use letters, digits, dots, dashes and underscores", a)
		}
	}
	for _, word := range append([]string{c.adminConfig}, c.brokers...) {
		if word != "" && !shellWord.MatchString(word) {
			return usage("%q cannot stand in a command: --brokers and --command-config take no blanks or quotes", word)
		}
	}
	return nil
}

// user is the name in the principal.
func (c *aclsConfig) user() string {
	_, name, _ := strings.Cut(c.principal, ":")
	return name
}

func (c *aclsConfig) print(w io.Writer) error {
	lines := acls.For(acls.Scope{Namespace: c.namespace, Agents: c.agents, Replies: c.replies}, c.roles...)
	switch c.format {
	case "json":
		return acls.JSON(w, c.principal, lines)
	case "yaml":
		return acls.KafkaUser(w, c.user(), lines)
	}
	script := "kafka-acls.sh --bootstrap-server " + strings.Join(c.brokers, ",")
	if c.adminConfig != "" {
		script += " --command-config " + c.adminConfig
	}
	return acls.Commands(w, script, c.principal, lines)
}
