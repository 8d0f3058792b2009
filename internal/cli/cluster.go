package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func agentsCommand(d Deps) *cobra.Command {
	g := group("agents", "Look at agents, validate their files, pause and resume them", agentListCommand(), agentValidateCommand(d),
		agentPauseCommand("pause", "Start nothing more at an agent", `No attempt of any task starts at the agent, neither of a step nor of an undo, until it is resumed: the first act when a service behind it fails.
Attempts that are running go on, and deadlines still apply. If no instance of the agent runs, and no version of a workflow names it, the name is probably
mistyped: the command then changes nothing and exits with 3, unless you give --force.`),
		agentPauseCommand("resume", "Let a paused agent go on", "What waited for the agent starts as it has room."))
	g.Aliases = []string{"agent"}
	return g
}

func agentPauseCommand(verb, short, long string) *cobra.Command {
	c := output(&cobra.Command{
		Use: verb + " AGENT", Short: short, Long: long, Args: cobra.ExactArgs(1),
		Example: "  sagalog agents " + verb + " payment --reason 'the payment service is being repaired'",
		RunE:    client(func(s *session, args []string) error { return s.pauseAgent(verb, args[0]) }),
	})
	c.Flags().String("reason", "", "the reason, for those who see the agent paused")
	c.Flags().String("by", "", "who "+verb+"s it, for the record")
	if verb == "pause" {
		c.Flags().Bool("force", false, "pause the agent even if no instance of it runs and no workflow names it, for example before its first start")
		WithoutVariable(c.Flags(), "force")
	}
	return c
}

func (s *session) pauseAgent(verb, agent string) error {
	path := "/v1/agents/" + url.PathEscape(agent) + "/" + verb
	if force, _ := s.cmd.Flags().GetBool("force"); force {
		path += "?force=true"
	}
	doc, err := s.change(s.cmd.Context(), http.MethodPost, path, api.AgentPauseBody{Reason: s.flag("reason"), By: s.flag("by")})
	if err != nil {
		return err
	}
	var d api.AgentPauseDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	if !d.Changed {
		s.note("agent %s was so before: nothing is changed", Printable(agent))
	}
	if d.Paused && d.Instances == 0 {
		s.note("no live instance runs agent %s: it will be paused when one starts", Printable(agent))
	}
	return s.one(doc, func(w io.Writer) error {
		state := "runs"
		if d.Paused {
			state = "paused"
		}
		return table(w, row{"AGENT", "STATE", "INSTANCES"}, []row{{d.Agent, state, strconv.Itoa(d.Instances)}})
	})
}

func agentListCommand() *cobra.Command {
	return output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List instances of agents with their load and health", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			if err := s.missingAgents(); err != nil {
				return err
			}
			return s.whole("/v1/agents", "agents", listing{none: "no instance of any agent is running", head: row{"AGENT", "INSTANCE", "NODE", "OPERATIONS", "IN FLIGHT", "CAPACITY", "HEALTH", "LAST SEEN"}, cells: rowOf(func(a api.AgentDocument) row {
				return row{a.Agent, a.Instance, a.Node, strings.Join(a.Operations, ","), strconv.Itoa(a.InFlight), strconv.Itoa(a.Capacity), healthText(&a), instant(a.LastSeen)}
			})})
		}),
	})
}

// healthText is the health of an instance, and which keys it lacks.
func healthText(a *api.AgentDocument) string {
	switch {
	case len(a.MissingKeys) == 0:
		return a.Health
	case slices.Contains(a.MissingKeys, events.NoKeys):
		return strings.TrimSpace(a.Health + " (opens nothing sealed)")
	}
	return strings.TrimSpace(a.Health + " (lacks key " + strings.Join(a.MissingKeys, ", ") + ")")
}

// missingAgents lists on standard error the agents that are paused, and those that steps wait for.
func (s *session) missingAgents() error {
	doc, err := s.get(s.cmd.Context(), "/v1/agents", nil)
	if err != nil {
		return err
	}
	var of struct {
		Paused  []api.PausedAgent
		Missing []events.Missing
	}
	if err := decode(doc, &of); err != nil {
		return err
	}
	for _, p := range of.Paused {
		text := "agent " + Printable(p.Agent) + " is paused since " + instant(p.Since)
		if p.By != "" {
			text += " by " + Printable(p.By)
		}
		s.note("%s", text+because(p.Reason))
	}
	for _, m := range of.Missing {
		why := "no live instance offers it"
		switch {
		case m.NoTopic != "":
			why = "it has no work topic: " + Printable(m.NoTopic)
		case m.Behind:
			why = "the brokers take no requests for it; look at the leaders and replicas of the agent's topic"
		}
		s.note("steps have been waiting for the operation %s of agent %s since %s: %s", Printable(m.Call().Verb()), Printable(m.Agent), instant(m.Since), why)
	}
	return nil
}

func partitionsCommand() *cobra.Command {
	g := group("partitions", "Look at partitions", output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List partitions with their owners and lag", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			nodes := noteStopped(s)
			return s.whole("/v1/partitions", "", listing{none: "the namespace has no partitions", head: row{"PARTITION", "OWNER", "EPOCH", "SINCE", "TAKEN OVER", "APPLIED", "END", "BEGINS", "LIVE", "DUE", "STATE HASH"}, cells: rowOf(func(p api.PartitionDocument) row {
				n := func(v *int64) string { return number(v, "-") } // absent while nobody owns the partition
				return row{strconv.Itoa(int(p.Partition)), ownerText(&p, nodes), p.Epoch, instant(p.Since), takenOver(p.TakenOver), n(p.AppliedOffset), n(p.EndOffset), beginsText(p.Begins), n(p.Live), n(p.Due), p.StateHash}
			})})
		}),
	}), takeOversCommand())
	g.Aliases = []string{"partition"}
	return g
}

// ownerText names the owner of a partition, and says if the partition has stopped or its owner is silent.
func ownerText(p *api.PartitionDocument, nodes []api.NodeDocument) string {
	if p.Stopped == nil {
		return p.Owner + silence(p.Owner, nodes)
	}
	return "stopped at " + p.Stopped.Node + " (" + p.Stopped.Reason + ")"
}

func takeOversCommand() *cobra.Command {
	return output(&cobra.Command{
		Use: "takeovers PARTITION", Short: "List the take-overs of a partition, the latest first: by whom, from whom, why", Args: cobra.ExactArgs(1),
		Example: "  sagalog partitions takeovers 3",
		RunE: client(func(s *session, args []string) error {
			if _, err := strconv.ParseUint(args[0], 10, 31); err != nil {
				return Usage("%q is not the number of a partition; `sagalog partitions list` shows them", args[0])
			}
			return s.whole("/v1/partitions/"+args[0]+"/takeovers", "takeovers", listing{none: "partition " + args[0] + " was never taken over, as far as the node that answers knows", head: row{"AT", "OWNER", "FROM", "CAUSE", "WITHOUT AN OWNER", "VOID RECORDS", "EPOCH"}, cells: rowOf(func(t api.PastTakeOver) row {
				gap, void := "-", "-" // not known to the node that answers
				if t.Gap != nil {
					gap = t.Gap.String()
				}
				if t.Void != nil {
					void = strconv.FormatUint(*t.Void, 10)
				}
				return row{instant(t.At), t.Owner, t.From, cmp.Or(t.Cause, "-"), gap, void, t.Epoch}
			})})
		}),
	})
}

// beginsText names the topics that do not begin with their first record any more.
func beginsText(b *api.PartitionBegins) string {
	if b == nil {
		return "-"
	}
	var texts []string
	for _, x := range []struct {
		topic string
		at    int64
	}{{"events", b.Events}, {"submissions", b.Submissions}, {"reports", b.Reports}} {
		if x.at > 0 {
			texts = append(texts, x.topic+"@"+strconv.FormatInt(x.at, 10))
		}
	}
	return cmp.Or(strings.Join(texts, " "), "0")
}

// takenOver says from whom a partition came, why, and for how long nobody owned it.
func takenOver(t *api.TakeOver) string {
	if t == nil {
		return "-"
	}
	return fmt.Sprintf("from %s (%s), %s without an owner", Printable(t.From), t.Cause, t.Gap)
}
