package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Need is what a process wants of a cluster.
type Need struct {
	Topics Topics
	// Partitions is how many a namespace gets that is not there yet. PartitionsSet says that a person asked for them:
	// another number is then a fault.
	Partitions    int32
	PartitionsSet bool
	// Owner, API and Projector are the roles of a node.
	Owner, API, Projector bool
	// Agents are the agents that the process runs.
	Agents []string
	// Made returns the number of partitions that the namespace was made with, and 0 while there is none. It is called
	// only when the topic of definitions is there and may be read. Only a node needs it.
	Made func(context.Context) (int32, error)
	// Known is told whether the namespace exists, before anything is made, and returns what that is at odds with: state
	// that this process has kept of another one. Nil for nothing.
	Known func(exists bool) []Finding
	// Warn is given by Preflight what works and what somebody should know. Nil for nobody.
	Warn func(Finding)
}

// node says that the process is more than agents.
func (n *Need) node() bool { return n.Owner || n.API || n.Projector }

// The times of Preflight.
const (
	// preflightWait bounds what leads to a refusal: a person waits for it.
	preflightWait = 10 * time.Second
	// patience is for brokers that start at the same time as we do: they take a few seconds.
	patience = 7 * time.Second
	// lookAgain is short, since what it waits for is over in a moment.
	lookAgain = 500 * time.Millisecond
	// createWait bounds the making of topics, which is no refusal but work: some seconds on busy brokers.
	createWait = 30 * time.Second
)

// Preflight looks whether a process can do its work, so that nothing of it fails later in a loop. It makes the topics of
// a namespace that is not there yet, because what may be done with a topic can be asked only when it exists. It waits a
// few seconds for what may pass by itself. It errors with *PreflightError.
func Preflight(ctx context.Context, c *Cluster, need Need) error {
	began := time.Now()
	var before []Finding
	for {
		l := look{c: c, need: need}
		l.within(ctx, time.Until(began.Add(preflightWait)))
		fails := l.fails()
		if before != nil && len(fails) > 0 && time.Since(began) > preflightWait {
			fails = before // the last look was cut short: what it complains of is the lack of time
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(fails) == 0 && len(l.missing) > 0:
			if err := l.create(ctx); err != nil {
				return err
			}
			began = time.Now()
			continue // what was made is looked at too
		case len(fails) == 0:
			l.warn()
			return nil
		case time.Since(began) > patience || slices.ContainsFunc(fails, func(f Finding) bool { return !f.passing }):
			return &PreflightError{Findings: fails}
		}
		if before == nil {
			c.cfg.Logger.Warn("the cluster is not ready; trying again for a few seconds", "reason", fails[0].What)
		}
		before = fails
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

// fails are the findings that stop a start.
func (l *look) fails() []Finding {
	return slices.DeleteFunc(slices.Clone(l.findings), func(f Finding) bool { return f.Status != StatusFail || f.later })
}

// create makes what is missing.
func (l *look) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	err := EnsureTopics(ctx, l.c, l.missing...)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &PreflightError{Findings: []Finding{{Check: CheckTopics, Status: StatusFail,
			What:   fmt.Sprintf("the topics were not made within %s: %s", createWait, err),
			Remedy: "look at the brokers' logs: brokers may be down or overloaded"}}}
	}
	return err
}

// Diagnose looks at all that Preflight looks at, changes nothing, and does not wait for what may pass.
func Diagnose(ctx context.Context, c *Cluster, need Need) []Finding {
	l := look{c: c, need: need}
	l.within(ctx, preflightWait)
	return l.findings
}

// Reach errors, with a *PreflightError, where no broker can be worked with. It asks once.
func Reach(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, preflightWait)
	defer cancel()
	l := look{c: c}
	l.brokers(ctx)
	if fails := slices.DeleteFunc(l.findings, func(f Finding) bool { return f.Status != StatusFail }); len(fails) > 0 {
		return &PreflightError{Findings: fails}
	}
	return nil
}

// look is one look at a cluster. Each step adds findings, and the next ones look only at what the step before reached.
type look struct {
	c    *Cluster
	need Need

	findings []Finding
	// made is the number of partitions of the namespace, 0 while there is none.
	made int32
	// missing are the topics that we would make.
	missing []TopicSpec
}

func (l *look) add(f Finding) { l.findings = append(l.findings, f) }

func (l *look) failed() bool {
	return slices.ContainsFunc(l.findings, func(f Finding) bool { return f.Status == StatusFail })
}

func (l *look) warn() {
	for _, f := range l.findings {
		if f.Status != StatusOK && l.need.Warn != nil {
			l.need.Warn(f)
		}
	}
}

func (l *look) within(ctx context.Context, bound time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	l.brokers(ctx)
	if l.failed() {
		return // nobody is there to ask
	}
	l.topics(ctx)
}

// brokers looks at each address that was given, and at each that the brokers name for themselves: these are what the
// client uses from then on.
func (l *look) brokers(ctx context.Context) {
	given := l.reachAll(ctx, l.c.cfg.Brokers)
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
			if _, ok := named[addr]; !ok && !slices.Contains(l.c.cfg.Brokers, addr) {
				addrs = append(addrs, addr)
			}
			named[addr] = b.NodeID
		}
	}
	reachable := 0
	for _, r := range append(given, l.reachAll(ctx, addrs)...) {
		id, own := named[r.addr]
		if r.fault == nil {
			if own {
				reachable++
			}
			l.add(Finding{Check: CheckBrokers, Status: StatusOK, What: fmt.Sprintf("broker %s: %s, %s", r.addr, release(r.reached.versions), r.reached.security)})
			l.versions(r)
			continue
		}
		f := r.fault.finding(r.addr)
		if own && !slices.Contains(l.c.cfg.Brokers, r.addr) {
			f.What = fmt.Sprintf("broker %d names %s as its address (advertised.listeners): %s", id, r.addr, r.fault.what)
			f.Remedy = "correct advertised.listeners of the broker, or make that address reachable from here: " + r.fault.remedy
		}
		if worked > 0 {
			f.Status = StatusWarn // others serve us; below is told when none does
		}
		l.add(f)
	}
	if worked > 0 && reachable == 0 {
		l.add(Finding{Check: CheckBrokers, Status: StatusFail, What: "no broker can be reached by the address that it names for itself", passing: true,
			Remedy: "correct advertised.listeners of the brokers: clients use these addresses after the first contact"})
	}
}

// looked is what came of one address: reached or fault.
type looked struct {
	addr    string
	reached *reached
	fault   *fault
}

func (l *look) reachAll(ctx context.Context, addrs []string) []looked {
	out := make([]looked, len(addrs))
	var probes sync.WaitGroup
	for i, addr := range addrs {
		probes.Go(func() {
			p := probe{cfg: &l.c.cfg, addr: addr}
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

// The requests that we cannot do without, and the least version of each.
var requests = []struct {
	key   kmsg.Key
	least int16
	why   string
}{
	{kmsg.Metadata, 10, "identities of topics"},
	{kmsg.JoinGroup, 5, "static members of groups"},
	{kmsg.LeaveGroup, 3, "taking a dead member out of a group"},
	{kmsg.InitProducerID, 0, "idempotent producers"},
	{kmsg.OffsetForLeaderEpoch, 0, "noticing lost records"},
	{kmsg.DescribeConfigs, 0, "auditing topics"},
	{kmsg.CreateTopics, 1, "making topics"},
}

func (l *look) versions(r looked) {
	var lacks []string
	for _, q := range requests {
		if !speaks(r.reached.versions, q.key, q.least) {
			lacks = append(lacks, fmt.Sprintf("%s of version %d (%s)", q.key.Name(), q.least, q.why))
		}
	}
	if len(lacks) == 0 {
		return
	}
	l.add(Finding{Check: CheckVersions, Status: StatusFail, What: "broker " + r.addr + " is too old: it lacks " + strings.Join(lacks, ", "),
		Remedy: "run Apache Kafka 2.8 or newer, or a broker that speaks as much"})
}

// topics looks at permissions, at what is there and at what would be made.
func (l *look) topics(ctx context.Context) {
	there, err := l.see(ctx, l.names(ctx))
	if err != nil {
		l.add(Finding{Check: CheckTopics, Status: StatusFail, What: "the topics cannot be listed: " + fromClient(err).Error(), passing: true,
			Remedy: "look at the brokers' logs: the cluster may have no controller at present"})
		return
	}
	if !l.permissions(ctx, there) {
		return
	}
	if !l.namespace(ctx, there) {
		return
	}
	specs := l.specs()
	l.creation(ctx, specs, there)
	l.settings(ctx, specs, there)
	l.leaders(specs, there)
}

// names returns the topics that matter, with those of the agents that workflows name.
func (l *look) names(ctx context.Context) []string {
	var list []string
	if l.need.node() {
		list = names(l.need.Topics.Base(1))
	} else {
		list = []string{l.need.Topics.Submissions(), l.need.Topics.Reports(), l.need.Topics.Presence()}
	}
	for _, agent := range l.need.Agents {
		list = append(list, l.need.Topics.Work(agent))
	}
	if l.need.Owner {
		// What may not be described is not listed; the base topics tell what is missing then.
		work, err := l.c.ListTopics(ctx, l.need.Topics.Work(""))
		if err == nil {
			list = append(list, work...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// specs are the topics that this process makes where they are missing.
func (l *look) specs() []TopicSpec {
	p := l.made
	if p == 0 {
		p = l.need.Partitions
	}
	var specs []TopicSpec
	if l.need.node() {
		specs = l.need.Topics.Base(p)
	}
	if l.made > 0 {
		for _, agent := range l.need.Agents {
			specs = append(specs, l.need.Topics.WorkSpec(agent, l.made))
		}
	}
	return specs
}

// present says that a topic is there, as far as we may know.
func present(there kadm.TopicDetails, topic string) bool {
	t, ok := there[topic]
	return ok && t.Err == nil
}
