package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sagalog/sagalog/internal/pause"
)

// Need is what a process needs from a cluster.
type Need struct {
	Topics kafka.Topics
	// Partitions is the number of partitions that a new namespace gets. PartitionsSet says that a person chose it; then an existing
	// namespace with another number is a fault.
	Partitions    int32
	PartitionsSet bool
	// Owner, API and Projector are the roles of a node.
	Owner, API, Projector bool
	// Webhook says that a node with the role owner delivers messages to a receiver outside.
	Webhook bool
	// Agents are the agents that the process runs.
	Agents []string
	// Made returns the number of partitions of the namespace, or 0 if the namespace does not exist. It is called only if the
	// topic of definitions exists and may be read. Only nodes set it.
	Made func(context.Context) (int32, error)
	// Known is called before anything is created, with whether the namespace exists. It returns findings if local state
	// contradicts that. May be nil.
	Known func(exists bool) []Finding
	// Warn is called by Preflight with findings that do not stop the start, except those that a node reports after Inspect. May be nil.
	Warn func(Finding)
	// Patience is how long Preflight waits for problems that may pass without help; 0 is 7 s.
	Patience time.Duration
}

// node says that the process has roles besides agents.
func (n *Need) node() bool { return n.Owner || n.API || n.Projector }

// The time limits of Preflight.
const (
	// preflightWait bounds one examination, because a person waits for it.
	preflightWait = 10 * time.Second
	// defaultPatience is for brokers that are started together with the process: they need a few seconds.
	defaultPatience = 7 * time.Second
	// lookAgain is short, because most of what it waits for passes in a moment.
	lookAgain = 500 * time.Millisecond
	// createWait bounds the creation of topics, which takes a few seconds on busy brokers.
	createWait = 30 * time.Second
)

// Preflight examines whether a process can do its work, so that its work does not fail later in a loop. It creates the topics of a
// new namespace, because permissions on a topic can only be asked for when it exists. It waits need.Patience for faults that may
// pass without help. It returns a *PreflightError.
func Preflight(ctx context.Context, c *kafka.Cluster, need Need) error {
	began := time.Now()
	patience := cmp.Or(need.Patience, defaultPatience)
	wait := max(patience, preflightWait)
	var before []Finding
	for {
		e := examination{c: c, need: need}
		e.within(ctx, time.Until(began.Add(wait)))
		fails := e.fails()
		if before != nil && len(fails) > 0 && time.Since(began) > wait {
			fails = before // the last examination was cut short, and reports only that
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(fails) == 0 && len(e.missing) > 0:
			if err := e.create(ctx); err != nil {
				return err
			}
			began = time.Now()
			continue // examine the created topics, too
		case len(fails) == 0:
			e.warn()
			return nil
		case time.Since(began) > patience || slices.ContainsFunc(fails, func(f Finding) bool { return !f.passing }):
			return &PreflightError{Findings: fails}
		}
		if before == nil {
			c.Config().Logger.Warn("the cluster is not ready; trying again", "for", patience, "reason", fails[0].What)
		}
		before = fails
		pause.For(ctx, lookAgain)
	}
}

// fails returns the findings that stop a start.
func (e *examination) fails() []Finding {
	return slices.DeleteFunc(slices.Clone(e.findings), func(f Finding) bool { return f.Status != StatusFail || f.later })
}

// create creates the missing topics.
func (e *examination) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	err := kafka.EnsureTopics(ctx, e.c, e.missing...)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &PreflightError{Findings: []Finding{{Check: CheckTopics, Status: StatusFail,
			What:   fmt.Sprintf("the topics were not created within %s: %s", createWait, err),
			Remedy: "look at the brokers' logs: brokers may be down or overloaded"}}}
	}
	return err
}

// Diagnose examines everything that Preflight does. It changes nothing and waits for nothing.
func Diagnose(ctx context.Context, c *kafka.Cluster, need Need) []Finding {
	e := examination{c: c, need: need}
	e.within(ctx, preflightWait)
	return e.findings
}

// Reach returns a *PreflightError if no broker is usable. It tries once.
func Reach(ctx context.Context, c *kafka.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, preflightWait)
	defer cancel()
	e := examination{c: c}
	e.brokers(ctx)
	if fails := slices.DeleteFunc(e.findings, func(f Finding) bool { return f.Status != StatusFail }); len(fails) > 0 {
		return &PreflightError{Findings: fails}
	}
	return nil
}

// examination is one examination of a cluster. Each step adds findings, and looks only at what the earlier steps could reach.
type examination struct {
	c    *kafka.Cluster
	need Need

	findings []Finding
	// made is the namespace's number of partitions, 0 if the namespace does not exist.
	made int32
	// missing are the topics to create.
	missing []kafka.TopicSpec
}

func (e *examination) add(f Finding) { e.findings = append(e.findings, f) }

func (e *examination) failed() bool {
	return slices.ContainsFunc(e.findings, func(f Finding) bool { return f.Status == StatusFail })
}

func (e *examination) warn() {
	for _, f := range e.findings {
		if f.Status != StatusOK && !f.audited && e.need.Warn != nil {
			e.need.Warn(f)
		}
	}
}

func (e *examination) within(ctx context.Context, bound time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	e.brokers(ctx)
	if e.failed() {
		return // there is no broker to ask
	}
	e.topics(ctx)
}

// brokers examines each configured address, and each that the brokers advertise, which the client uses from then on.
func (e *examination) brokers(ctx context.Context) {
	given := e.reachAll(ctx, e.c.Brokers())
	named := map[string]int32{}
	var addrs []string
	worked := 0
	for _, g := range given {
		if g.fault != nil {
			continue
		}
		worked++
		for _, b := range g.reached.brokers {
			addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
			if _, ok := named[addr]; !ok && !slices.Contains(e.c.Brokers(), addr) {
				addrs = append(addrs, addr)
			}
			named[addr] = b.NodeID
		}
	}
	reachable := 0
	for _, r := range append(given, e.reachAll(ctx, addrs)...) {
		id, own := named[r.addr]
		if r.fault == nil {
			if own {
				reachable++
			}
			e.add(Finding{Check: CheckBrokers, Status: StatusOK, What: fmt.Sprintf("broker %s: %s, %s", r.addr, release(r.reached.versions), r.reached.security)})
			e.versions(r)
			continue
		}
		f := r.fault.finding(r.addr)
		if own && !slices.Contains(e.c.Brokers(), r.addr) {
			f.What = fmt.Sprintf("broker %d advertises the address %s (advertised.listeners): %s", id, r.addr, r.fault.what)
			f.Remedy = "correct advertised.listeners of the broker, or make that address reachable from here: " + r.fault.remedy
		}
		if worked > 0 {
			f.Status = StatusWarn // other brokers answer; if none is reachable, there is a failure below
		}
		e.add(f)
	}
	if worked > 0 && reachable == 0 {
		e.add(Finding{Check: CheckBrokers, Status: StatusFail, What: "no broker can be reached at the address that it advertises", passing: true,
			Remedy: "correct advertised.listeners of the brokers: clients use these addresses after the first contact"})
	}
}

// looked is the result for one address: reached or a fault.
type looked struct {
	addr    string
	reached *reached
	fault   *fault
}

func (e *examination) reachAll(ctx context.Context, addrs []string) []looked {
	out := make([]looked, len(addrs))
	var probes sync.WaitGroup
	for i, addr := range addrs {
		probes.Go(func() {
			p := probe{cfg: e.c.Config(), addr: addr}
			out[i].addr = addr
			out[i].reached, out[i].fault = p.reach(ctx)
		})
	}
	probes.Wait()
	return out
}

func release(v *kmsg.ApiVersionsResponse) string {
	return "like Apache Kafka " + strings.TrimPrefix(kversion.FromApiVersionsResponse(v).VersionGuess(), "v")
}

// The requests that we need, and the lowest version of each.
var requests = []struct {
	key   kmsg.Key
	least int16
	why   string
}{
	{kmsg.Metadata, 10, "IDs of topics"},
	{kmsg.JoinGroup, 5, "static members of groups"},
	{kmsg.LeaveGroup, 3, "taking a dead member out of a group"},
	{kmsg.InitProducerID, 0, "idempotent producers"},
	{kmsg.OffsetForLeaderEpoch, 0, "noticing lost records"},
	{kmsg.DescribeConfigs, 0, "auditing topics"},
	{kmsg.CreateTopics, 1, "creating topics"},
}

func (e *examination) versions(r looked) {
	var lacks []string
	for _, q := range requests {
		if !speaks(r.reached.versions, q.key, q.least) {
			lacks = append(lacks, fmt.Sprintf("%s of version %d (%s)", q.key.Name(), q.least, q.why))
		}
	}
	if len(lacks) == 0 {
		return
	}
	e.add(Finding{Check: CheckVersions, Status: StatusFail, What: "broker " + r.addr + " is too old: it lacks " + strings.Join(lacks, ", "),
		Remedy: "run Apache Kafka 2.8 or newer, or a broker that supports the same requests"})
}

// topics examines permissions, existing topics, and topics that would be created.
func (e *examination) topics(ctx context.Context) {
	there, err := e.c.Describe(ctx, e.names(ctx)...)
	if err != nil {
		e.add(Finding{Check: CheckTopics, Status: StatusFail, What: "the topics cannot be listed: " + err.Error(), passing: true,
			Remedy: "look at the brokers' logs: the cluster may have no controller at present"})
		return
	}
	if !e.permissions(ctx, there) {
		return
	}
	if !e.namespace(ctx, there) {
		return
	}
	specs := e.specs()
	e.creation(specs, there)
	e.settings(ctx, specs, there)
	e.leaders(specs, there)
}

// names returns the topics that the process needs, including the work topics that already exist.
func (e *examination) names(ctx context.Context) []string {
	var list []string
	if e.need.node() {
		list = kafka.TopicNames(e.need.Topics.Base(1))
	} else {
		list = []string{e.need.Topics.Submissions(), e.need.Topics.Reports(), e.need.Topics.Presence()}
	}
	for _, agent := range e.need.Agents {
		list = append(list, e.need.Topics.Work(agent))
	}
	if e.need.Owner {
		// Topics that we may not describe are not listed. Then the base topics show that something is missing.
		work, err := e.c.ListTopics(ctx, e.need.Topics.Work(""))
		if err == nil {
			list = append(list, work...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// specs are the topics that this process creates if they are missing.
func (e *examination) specs() []kafka.TopicSpec {
	p := e.made
	if p == 0 {
		p = e.need.Partitions
	}
	var specs []kafka.TopicSpec
	if e.need.node() {
		specs = e.need.Topics.Base(p)
	}
	if e.made > 0 {
		for _, agent := range e.need.Agents {
			specs = append(specs, e.need.Topics.WorkSpec(agent, e.made))
		}
	}
	return specs
}

// present reports whether a topic exists, as far as we are allowed to see.
func present(there kadm.TopicDetails, topic string) bool {
	t, ok := there[topic]
	return ok && t.Err == nil
}
