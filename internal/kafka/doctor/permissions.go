package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/acls"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Short names for Kafka's operations.
const (
	opRead            = kmsg.ACLOperationRead
	opCreate          = kmsg.ACLOperationCreate
	opDescribeConfigs = kmsg.ACLOperationDescribeConfigs
)

// operations holds the operations on each topic or group.
type operations map[string][]kmsg.ACLOperation

func (o operations) add(name string, ops ...kmsg.ACLOperation) {
	for _, op := range ops {
		if !slices.Contains(o[name], op) {
			o[name] = append(o[name], op)
		}
	}
}

// lines are the permissions that the roles need.
func (n *Need) lines() []acls.Line {
	var roles []acls.Role
	for role, has := range map[acls.Role]bool{acls.Owner: n.Owner, acls.API: n.API, acls.Projector: n.Projector, acls.Webhook: n.Owner && n.Webhook, acls.Agent: len(n.Agents) > 0} {
		if has {
			roles = append(roles, role)
		}
	}
	return acls.For(acls.Scope{Namespace: n.Topics.Namespace, Agents: n.Agents}, roles...)
}

// onTopics returns the operations that the roles perform on topics, those that they can do without or the others. work are the work topics that
// exist. Whether a topic can be created is asked in another way.
func (n *Need) onTopics(work []string, optional bool) operations {
	o := operations{}
	for _, l := range n.lines() {
		op, err := kmsg.ParseACLOperation(l.Operation)
		if err != nil || l.Resource != acls.Topic || op == opCreate || l.Optional != optional {
			continue
		}
		if !l.Prefixed {
			o.add(l.Name, op)
			continue
		}
		for _, topic := range work {
			if strings.HasPrefix(topic, l.Name) {
				o.add(topic, op)
			}
		}
	}
	return o
}

func (n *Need) groups() (list []string) {
	for _, l := range n.lines() {
		if l.Resource == acls.Group && !l.Optional {
			list = append(list, l.Name)
		}
	}
	return list
}

// permissions examines our permissions. It returns false if the rest cannot be examined without more permissions.
func (e *examination) permissions(ctx context.Context, there kadm.TopicDetails) bool {
	topics := e.lackingOnTopics(there, false)
	groups := operations{}
	for _, group := range e.need.groups() {
		denied, known := e.groupDenied(ctx, group)
		if !known {
			break // the next one would take as long
		}
		if denied {
			groups.add(group, opRead)
		}
	}
	absent := slices.DeleteFunc(e.specs(), func(s kafka.TopicSpec) bool { return present(there, s.Name) })
	var byHand []kafka.TopicSpec
	for _, s := range e.creationDenied(ctx, absent) {
		topics.add(s.Name, opCreate)
		if !hidden(there, s.Name) {
			byHand = append(byHand, s)
		}
	}
	e.tellLacking(topics, groups, byHand)
	if len(topics)+len(groups) == 0 {
		e.tellOptional(e.lackingOnTopics(there, true), e.lackingOnAgents(ctx, there))
		e.add(Finding{Check: CheckPermissions, Status: StatusOK, What: e.c.Config().Principal() + " may do what the roles need"})
	}
	return len(topics) == 0
}

// hidden reports whether we may not even know that a topic exists.
func hidden(there kadm.TopicDetails, topic string) bool {
	return errors.Is(there[topic].Err, kerr.TopicAuthorizationFailed)
}

func (e *examination) lackingOnTopics(there kadm.TopicDetails, optional bool) operations {
	var work []string
	for name := range there {
		if strings.HasPrefix(name, e.need.Topics.Work("")) {
			work = append(work, name)
		}
	}
	lacking := operations{}
	for topic, ops := range e.need.onTopics(work, optional) {
		t := there[topic]
		for _, op := range ops {
			// A broker that lists no operation at all does not support the question, because DESCRIBE itself is an operation.
			if hidden(there, topic) || t.Err == nil && len(t.AuthorizedOperations) > 0 && !slices.Contains(t.AuthorizedOperations, op) {
				lacking.add(topic, op)
			}
		}
	}
	return lacking
}

// lackingOnAgents asks about the groups of agents, of which an owner needs less if it may not have all. One is asked about for all: whoever may read
// one may by custom read those of all agents, and each question takes a while.
func (e *examination) lackingOnAgents(ctx context.Context, there kadm.TopicDetails) operations {
	lacking, prefix := operations{}, e.need.Topics.Work("")
	for _, topic := range slices.Sorted(maps.Keys(there)) {
		agent, isWork := strings.CutPrefix(topic, prefix)
		if !e.need.Owner || !isWork || slices.Contains(e.need.Agents, agent) {
			continue
		}
		group := kafka.Groups{Namespace: e.need.Topics.Namespace}.Agents(agent)
		if denied, _ := e.groupDenied(ctx, group); denied {
			lacking.add(group, opRead)
		}
		break
	}
	return lacking
}

// groupWait bounds the questions about one group. In a cluster that never had a group, the first one takes a second.
const groupWait = 4 * time.Second

// groupDenied reports whether we may not join a group. known is false if no broker answers for it.
func (e *examination) groupDenied(ctx context.Context, group string) (denied, known bool) {
	ctx, cancel := context.WithTimeout(ctx, groupWait)
	defer cancel()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = []string{group}, true
	resp, err := describe.RequestWith(ctx, e.c)
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
	// For a group without history, brokers list no operations. A heartbeat of an unknown member is always refused, and the error
	// reveals whether we are authorized.
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = group, "sagalog-preflight", -1
	answer, err := beat.RequestWith(ctx, e.c)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if errors.Is(err, kerr.CoordinatorNotAvailable) || timedOut(err) {
		e.uncoordinated(group)
		return false, false
	}
	return errors.Is(err, kerr.GroupAuthorizationFailed), true
}

// uncoordinated reports that no broker answers for a group. The client repeats its question until the time is over, so one more question
// shows whether there is no coordinator or the brokers are only slow.
func (e *examination) uncoordinated(group string) {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := req.RequestWith(ctx, e.c)
	if err == nil && len(resp.Coordinators) == 1 {
		err = kerr.ErrorForCode(resp.Coordinators[0].ErrorCode)
	}
	e.add(Finding{
		Check: CheckGroups, Status: StatusFail, What: "no broker coordinates the group " + group, passing: true,
		later: !errors.Is(err, kerr.CoordinatorNotAvailable), // the member waits for brokers that are slow
		Remedy: "check that the topic __consumer_offsets can be created and has leaders: offsets.topic.replication.factor of the brokers " +
			"must not be above their number",
	})
}

// creationDenied asks which topics we may not create, and creates none. Other refusals become findings.
func (e *examination) creationDenied(ctx context.Context, absent []kafka.TopicSpec) (denied []kafka.TopicSpec) {
	if len(absent) == 0 {
		return nil
	}
	rf, err := e.c.ReplicationFactor(ctx)
	for _, s := range absent {
		if err != nil {
			break
		}
		answer := e.c.CheckCreate(ctx, s, rf)
		refused, ok := errors.AsType[*kafka.CreateError](answer)
		switch {
		case !ok:
			err = answer
		case errors.Is(refused, kerr.TopicAuthorizationFailed), errors.Is(refused, kerr.ClusterAuthorizationFailed):
			denied = append(denied, s)
		default:
			e.add(Finding{Check: CheckTopics, Status: StatusFail, What: refused.What(), Remedy: refused.Remedy(), passing: kafka.IsPassing(refused)})
		}
	}
	if err != nil {
		e.add(Finding{Check: CheckTopics, Status: StatusFail, What: "the brokers do not say whether topics can be created: " + err.Error(), passing: true,
			Remedy: "look at the brokers' logs: the cluster may have no controller at present"})
	}
	return denied
}

// tellLacking adds one finding for topics, one for dead-letter topics and one for groups: each takes one command to fix.
func (e *examination) tellLacking(topics, groups operations, byHand []kafka.TopicSpec) {
	mine, dead := operations{}, operations{}
	for topic, ops := range topics {
		if strings.HasPrefix(topic, kafka.DeadPrefix) {
			dead[topic] = ops
		} else {
			mine[topic] = ops
		}
	}
	ns := e.need.Topics.Namespace + "."
	for _, r := range []struct {
		kind, prefix string
		lacking      operations
	}{{"topic", ns, mine}, {"topic", kafka.DeadPrefix + ns, dead}, {"group", ns, groups}} {
		if len(r.lacking) == 0 {
			continue
		}
		f := Finding{Check: CheckPermissions, Status: StatusFail,
			What:   e.c.Config().Principal() + " lacks permissions: " + r.lacking.list(r.kind),
			Remedy: allow(e.c.Config(), r.kind, r.prefix, r.lacking.all())}
		var commands []string
		for _, s := range byHand {
			if strings.HasPrefix(s.Name, r.prefix) && r.kind == "topic" {
				commands = append(commands, "\n    "+e.c.CreateCommand(s, e.replicas()))
			}
		}
		if len(commands) > 0 {
			f.Remedy += "\n  or, instead of CREATE, create the topics by:" + strings.Join(commands, "")
		}
		f.Remedy += "\n  or permit no more than the roles need, which is printed by: " + e.c.Config().Grants()
		e.add(f)
	}
}

// tellOptional adds a warning about permissions that the process can do without.
func (e *examination) tellOptional(topics, groups operations) {
	var parts []string
	for kind, lacking := range map[string]operations{"topic": topics, "group": groups} {
		if len(lacking) > 0 {
			parts = append(parts, lacking.list(kind))
		}
	}
	if len(parts) > 0 {
		slices.Sort(parts)
		e.add(Finding{Check: CheckPermissions, Status: StatusWarn, What: e.c.Config().Principal() + " lacks permissions that it can do without: " + strings.Join(parts, "; "),
			Remedy: "permit them, or do without what the command says that they are for: " + e.c.Config().Grants()})
	}
}

// replicas is the replication factor in a command for somebody else to run.
func (e *examination) replicas() int16 {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	rf, err := e.c.ReplicationFactor(ctx)
	if err != nil {
		return kafka.SafeReplication
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

// allow is the command with which an administrator grants operations on everything in a namespace.
func allow(cfg *kafka.ClusterConfig, kind, prefix string, ops []kmsg.ACLOperation) string {
	s := cfg.Script("kafka-acls.sh") + " --add --allow-principal '" + cfg.Principal() + "'"
	for _, op := range ops {
		name := op.String()
		if op == opDescribeConfigs {
			name = "DescribeConfigs" // the script accepts no underscore
		}
		s += " --operation " + name
	}
	return s + " --" + kind + " " + prefix + " --resource-pattern-type prefixed"
}
