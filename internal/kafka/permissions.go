package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Short names for Kafka's operations.
const (
	opRead            = kmsg.ACLOperationRead
	opWrite           = kmsg.ACLOperationWrite
	opCreate          = kmsg.ACLOperationCreate
	opDescribe        = kmsg.ACLOperationDescribe
	opDescribeConfigs = kmsg.ACLOperationDescribeConfigs
)

// operations on each topic or group.
type operations map[string][]kmsg.ACLOperation

func (o operations) add(name string, ops ...kmsg.ACLOperation) {
	for _, op := range ops {
		if !slices.Contains(o[name], op) {
			o[name] = append(o[name], op)
		}
	}
}

// onTopics is what the roles do with topics; work are the topics of work that owners fill.
func (n *Need) onTopics(work []string) operations {
	t, o := n.Topics, operations{}
	if n.node() {
		for _, s := range t.Base(1) {
			o.add(s.Name, opDescribeConfigs)
		}
		o.add(t.Definitions(), opRead, opWrite) // any node makes the namespace and applies workflows
		o.add(t.Events(), opRead)
		o.add(t.Presence(), opRead, opWrite)
	}
	if n.Owner {
		o.add(t.Submissions(), opRead, opWrite) // writes what came to the wrong partition
		o.add(t.Reports(), opRead, opWrite)
		o.add(t.Events(), opWrite)
		o.add(t.DeadSubmissions(), opWrite)
		o.add(t.DeadReports(), opWrite)
		o.add(t.Alerts(), opWrite)
		for _, topic := range work {
			o.add(topic, opWrite)
		}
	}
	if n.API {
		o.add(t.Submissions(), opRead, opWrite)
		o.add(t.Reports(), opRead, opWrite)
		o.add(t.DeadSubmissions(), opRead)
		o.add(t.DeadReports(), opRead)
	}
	for _, agent := range n.Agents {
		o.add(t.Work(agent), opRead)
		o.add(t.Submissions(), opDescribe)
		o.add(t.Reports(), opWrite)
		o.add(t.Presence(), opWrite)
	}
	return o
}

func (n *Need) groups() []string {
	var list []string
	if n.Owner {
		list = append(list, n.Topics.Namespace+".owners")
	}
	for _, agent := range n.Agents {
		list = append(list, n.Topics.Namespace+".agents."+agent)
	}
	return list
}

// permissions asks what we may do. It returns false where the rest cannot be looked at without more.
func (l *look) permissions(ctx context.Context, there kadm.TopicDetails) bool {
	topics := l.lackingOnTopics(there)
	groups := operations{}
	for _, group := range l.need.groups() {
		denied, known := l.groupDenied(ctx, group)
		if !known {
			break // the next one would take as long
		}
		if denied {
			groups.add(group, opRead)
		}
	}
	absent := slices.DeleteFunc(l.specs(), func(s TopicSpec) bool { return present(there, s.Name) })
	var byHand []TopicSpec
	for _, s := range l.creationDenied(ctx, absent) {
		topics.add(s.Name, opCreate)
		if !hidden(there, s.Name) {
			byHand = append(byHand, s)
		}
	}
	l.tellLacking(topics, groups, byHand)
	if len(topics)+len(groups) == 0 {
		l.add(Finding{Check: CheckPermissions, Status: StatusOK, What: l.c.cfg.principal() + " may do what the roles need"})
	}
	return len(topics) == 0
}

// hidden says that we may not even know whether a topic exists.
func hidden(there kadm.TopicDetails, topic string) bool {
	return errors.Is(there[topic].Err, kerr.TopicAuthorizationFailed)
}

func (l *look) lackingOnTopics(there kadm.TopicDetails) operations {
	var work []string
	for name := range there {
		if strings.HasPrefix(name, l.need.Topics.Work("")) {
			work = append(work, name)
		}
	}
	lacking := operations{}
	for topic, ops := range l.need.onTopics(work) {
		t := there[topic]
		for _, op := range ops {
			// A broker that tells of no operation does not answer the question: even describing is one.
			if hidden(there, topic) || t.Err == nil && len(t.AuthorizedOperations) > 0 && !slices.Contains(t.AuthorizedOperations, op) {
				lacking.add(topic, op)
			}
		}
	}
	return lacking
}

// groupWait bounds the questions about one group: in a cluster that never had a group, the first one takes a second.
const groupWait = 4 * time.Second

// groupDenied tells whether we may not be a member of a group; known is false where nobody answers for it.
func (l *look) groupDenied(ctx context.Context, group string) (denied, known bool) {
	ctx, cancel := context.WithTimeout(ctx, groupWait)
	defer cancel()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = []string{group}, true
	resp, err := describe.RequestWith(ctx, l.c.client)
	if err == nil && len(resp.Groups) == 1 {
		g := resp.Groups[0]
		err = kerr.ErrorForCode(g.ErrorCode)
		if ops := kadm.DecodeACLOperations(g.AuthorizedOperations); err == nil && len(ops) > 0 {
			return !slices.Contains(ops, opRead), true
		}
	}
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		return true, true
	}
	// Of a group that nobody was in yet, brokers tell no operations. A heartbeat of nobody is refused in any case; how,
	// says what we may.
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = group, "sagalog-preflight", -1
	answer, err := beat.RequestWith(ctx, l.c.client)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if errors.Is(err, kerr.CoordinatorNotAvailable) || timedOut(err) {
		l.uncoordinated(group)
		return false, false
	}
	return errors.Is(err, kerr.GroupAuthorizationFailed), true
}

// uncoordinated tells that nobody answers for a group. The client asks on until its time is over; whether the brokers
// say that there is no coordinator, or are only slow, one more question tells.
func (l *look) uncoordinated(group string) {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := req.RequestWith(ctx, l.c.client)
	if err == nil && len(resp.Coordinators) == 1 {
		err = kerr.ErrorForCode(resp.Coordinators[0].ErrorCode)
	}
	l.add(Finding{
		Check: CheckGroups, Status: StatusFail, What: "no broker coordinates the group " + group, passing: true,
		later: !errors.Is(err, kerr.CoordinatorNotAvailable), // the member waits for brokers that are slow
		Remedy: "look whether the topic __consumer_offsets can be made and has leaders: offsets.topic.replication.factor of the brokers " +
			"must not be above their number",
	})
}

// creationDenied asks, without making anything, which topics we may not make. Other refusals become findings.
func (l *look) creationDenied(ctx context.Context, absent []TopicSpec) (denied []TopicSpec) {
	if len(absent) == 0 {
		return nil
	}
	rf, err := l.c.replication(ctx)
	for _, s := range absent {
		if err != nil {
			break
		}
		var resp kadm.CreateTopicResponses
		if resp, err = l.c.admin.ValidateCreateTopics(ctx, s.Partitions, rf, s.settings(rf), s.Name); err != nil {
			break
		}
		r := resp[s.Name]
		switch {
		case r.Err == nil, errors.Is(r.Err, kerr.TopicAlreadyExists):
		case errors.Is(r.Err, kerr.TopicAuthorizationFailed), errors.Is(r.Err, kerr.ClusterAuthorizationFailed):
			denied = append(denied, s)
		default:
			refused := CreateError{Topic: s.Name, Reason: reason(r.Err, r.ErrMessage), Command: l.c.createCommand(s, rf), Err: r.Err}
			l.add(Finding{Check: CheckTopics, Status: StatusFail, What: refused.what(), Remedy: refused.remedy()})
		}
	}
	if err != nil {
		l.add(Finding{Check: CheckTopics, Status: StatusFail, What: "the brokers do not say whether topics can be made: " + fromClient(err).Error(), passing: true,
			Remedy: "look at the brokers' logs: the cluster may have no controller at present"})
	}
	return denied
}

// tellLacking adds a finding for topics, one for dead letters and one for groups: each is one command to mend.
func (l *look) tellLacking(topics, groups operations, byHand []TopicSpec) {
	mine, dead := operations{}, operations{}
	for topic, ops := range topics {
		if strings.HasPrefix(topic, deadPrefix) {
			dead[topic] = ops
		} else {
			mine[topic] = ops
		}
	}
	ns := l.need.Topics.Namespace + "."
	for _, r := range []struct {
		kind, prefix string
		lacking      operations
	}{{"topic", ns, mine}, {"topic", deadPrefix + ns, dead}, {"group", ns, groups}} {
		if len(r.lacking) == 0 {
			continue
		}
		f := Finding{Check: CheckPermissions, Status: StatusFail,
			What:   l.c.cfg.principal() + " lacks permissions: " + r.lacking.list(r.kind),
			Remedy: l.c.allow(r.kind, r.prefix, r.lacking.all())}
		var commands []string
		for _, s := range byHand {
			if strings.HasPrefix(s.Name, r.prefix) && r.kind == "topic" {
				commands = append(commands, "\n    "+l.c.createCommand(s, l.replicas()))
			}
		}
		if len(commands) > 0 {
			f.Remedy += "\n  or, instead of CREATE, make the topics by:" + strings.Join(commands, "")
		}
		l.add(f)
	}
}

// replicas is the replication of new topics for a command that somebody else runs.
func (l *look) replicas() int16 {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	rf, err := l.c.replication(ctx)
	if err != nil {
		return safeReplication
	}
	return rf
}

func (o operations) all() []kmsg.ACLOperation {
	var list []kmsg.ACLOperation
	for _, ops := range o {
		list = append(list, ops...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// list is "READ on the topics a, b; WRITE on the topic c".
func (o operations) list(kind string) string {
	var parts []string
	for _, op := range o.all() {
		var on []string
		for _, name := range slices.Sorted(maps.Keys(o)) {
			if slices.Contains(o[name], op) {
				on = append(on, name)
			}
		}
		if len(on) > 1 {
			parts = append(parts, fmt.Sprintf("%s on the %ss %s", op, kind, strings.Join(on, ", ")))
		} else {
			parts = append(parts, fmt.Sprintf("%s on the %s %s", op, kind, on[0]))
		}
	}
	return strings.Join(parts, "; ")
}

// allow is the command by which an administrator allows operations on all of a namespace.
func (c *Cluster) allow(kind, prefix string, ops []kmsg.ACLOperation) string {
	s := c.cfg.bootstrap("kafka-acls.sh") + " --add --allow-principal '" + c.cfg.principal() + "'"
	for _, op := range ops {
		name := op.String()
		if op == opDescribeConfigs {
			name = "DescribeConfigs" // the script takes no underscore
		}
		s += " --operation " + name
	}
	return s + " --" + kind + " " + prefix + " --resource-pattern-type prefixed"
}
