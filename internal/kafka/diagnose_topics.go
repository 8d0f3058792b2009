package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// namespace finds out how many partitions there are. It returns false where nothing can be said of the topics.
func (l *look) namespace(ctx context.Context, there kadm.TopicDetails) bool {
	ns := l.need.Topics.Namespace
	if !l.need.node() {
		l.made = int32(len(there[l.need.Topics.Submissions()].Partitions))
	} else if present(there, l.need.Topics.Definitions()) && l.need.Made != nil {
		var err error
		if l.made, err = l.need.Made(ctx); err != nil {
			f := Finding{Check: CheckNamespace, Status: StatusFail, What: fmt.Sprintf("namespace %s cannot be read: %s", ns, err),
				Remedy: "give the --namespace of an engine, or one of which there is no topic yet", passing: errors.Is(err, context.DeadlineExceeded)}
			if errors.Is(err, events.ErrReaderTooOld) {
				f.Remedy = "run the newer version of sagalog that made this namespace, or give another --namespace"
			}
			l.add(f)
			return false
		}
	}
	switch {
	case l.made > 0 && l.need.PartitionsSet && l.need.Partitions != l.made:
		l.add(Finding{Check: CheckNamespace, Status: StatusFail,
			What:   fmt.Sprintf("namespace %s has %d partitions, fixed when it was made, and --partitions is %d", ns, l.made, l.need.Partitions),
			Remedy: "leave out --partitions, or give another --namespace"})
	case l.made > 0:
		l.add(Finding{Check: CheckNamespace, Status: StatusOK, What: fmt.Sprintf("namespace %s has %d partitions", ns, l.made)})
	case l.need.node():
		l.add(Finding{Check: CheckNamespace, Status: StatusOK, What: fmt.Sprintf("namespace %s does not exist yet: the first node makes it, with %d partitions", ns, l.need.Partitions)})
	default:
		l.add(Finding{Check: CheckNamespace, Status: StatusWarn, What: fmt.Sprintf("namespace %s does not exist yet: agents wait for it", ns),
			Remedy: "start a node with another role than agent"})
	}
	if l.need.Known != nil {
		l.findings = append(l.findings, l.need.Known(l.made > 0)...)
	}
	return true
}

// see describes topics and what we may do with them. (kadm gives up on all topics at the first that may not be described.)
func (l *look) see(ctx context.Context, topics []string) (kadm.TopicDetails, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, t := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &t
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, l.c.client)
	if err != nil {
		return nil, err
	}
	there := kadm.TopicDetails{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		d := kadm.TopicDetail{Topic: *t.Topic, Partitions: kadm.PartitionDetails{}, Err: kerr.ErrorForCode(t.ErrorCode),
			AuthorizedOperations: kadm.DecodeACLOperations(t.AuthorizedOperations)}
		for _, p := range t.Partitions {
			d.Partitions[p.Partition] = kadm.PartitionDetail{Partition: p.Partition, Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR}
		}
		there[d.Topic] = d
	}
	return there, nil
}

// lasting are the topics that hold what was accepted.
func lasting(t Topics) []string { return []string{t.Events(), t.Submissions(), t.Reports()} }

// creation finds what is missing: made by us, or lost.
func (l *look) creation(_ context.Context, specs []TopicSpec, there kadm.TopicDetails) {
	for _, s := range specs {
		if present(there, s.Name) {
			continue
		}
		if l.made > 0 && slices.Contains(lasting(l.need.Topics), s.Name) {
			l.add(Finding{Check: CheckTopics, Status: StatusFail,
				What:   fmt.Sprintf("the topic %s is gone, although the namespace %s exists, and with it what was accepted", s.Name, l.need.Topics.Namespace),
				Remedy: "restore it from a copy, or begin another namespace (--namespace), or delete all topics of this one"})
			continue
		}
		l.missing = append(l.missing, s)
	}
	if len(l.missing) > 0 {
		l.add(Finding{Check: CheckTopics, Status: StatusOK, What: fmt.Sprintf("%d topics are missing and can be made: %s", len(l.missing), strings.Join(names(l.missing), ", "))})
	}
}

// settings audits the topics that are there.
func (l *look) settings(ctx context.Context, specs []TopicSpec, there kadm.TopicDetails) {
	specs = slices.DeleteFunc(slices.Clone(specs), func(s TopicSpec) bool { return !present(there, s.Name) })
	if !l.need.node() {
		return // agents keep no facts: the nodes audit
	}
	if len(specs) == 0 {
		if rf, err := l.c.replication(ctx); err == nil { // else what makes the topics says so
			l.copies(int(rf))
		}
		return
	}
	a, err := l.c.audit(ctx, specs)
	if err != nil {
		l.add(Finding{Check: CheckTopics, Status: StatusFail, What: fromClient(err).Error(), passing: true, Remedy: "look at the brokers' logs"})
		return
	}
	for _, p := range a.problems {
		if p.Setting == settingPartitions && l.made == 0 { // somebody made it by hand, before the first node
			p.Remedy = fmt.Sprintf("give --partitions %s, if all topics of the namespace have as many; or delete this one, if it is empty, so that it is made anew: %s --delete --topic %s",
				p.Value, l.c.cfg.bootstrap("kafka-topics.sh"), p.Topic)
		}
		l.add(Finding{Check: CheckTopics, Status: StatusFail, What: p.what(), Remedy: p.Remedy})
	}
	if len(a.problems) == 0 {
		l.add(Finding{Check: CheckTopics, Status: StatusOK, What: fmt.Sprintf("%d topics have settings that lose nothing", len(specs))})
	}
	l.copies(a.replication)
	l.inSync(specs, there, a.insync)
}

// copies tells how often new topics hold each record, also before there is one: it is cheaper to hear of it then.
func (l *look) copies(replication int) {
	if replication < safeReplication && !l.c.cfg.Embedded {
		l.add(Finding{Check: CheckReplicas, Status: StatusWarn, What: "there are fewer than three brokers, so new topics hold each record once: what is on a lost disk is lost",
			Remedy: "run three brokers for what must not be lost"})
	}
}

// inSync tells of partitions to which nothing can be appended now, and of those that would bear no further loss.
func (l *look) inSync(specs []TopicSpec, there kadm.TopicDetails, insync map[string]int) {
	var refusing, behind []string
	var refusers, followers []int32
	for _, s := range specs {
		for _, p := range there[s.Name].Partitions.Sorted() {
			if len(p.ISR) == len(p.Replicas) || p.Leader < 0 {
				continue
			}
			at := s.Name + "/" + strconv.Itoa(int(p.Partition))
			if len(p.ISR) < insync[s.Name] {
				refusing, refusers = append(refusing, at), append(refusers, without(p.Replicas, p.ISR)...)
			} else {
				behind, followers = append(behind, at), append(followers, without(p.Replicas, p.ISR)...)
			}
		}
	}
	if len(refusing) > 0 {
		l.add(Finding{Check: CheckReplicas, Status: StatusFail, later: true,
			What:   "fewer copies are in sync than min.insync.replicas, so appends are refused at present: " + shortened(refusing),
			Remedy: "start the brokers whose copies are behind: " + numbers(refusers)})
	}
	if len(behind) > 0 {
		l.add(Finding{Check: CheckReplicas, Status: StatusWarn,
			What: "not all copies are in sync: " + shortened(behind), Remedy: "start the brokers whose copies are behind: " + numbers(followers)})
	}
	if len(refusing)+len(behind) == 0 {
		l.add(Finding{Check: CheckReplicas, Status: StatusOK, What: "all copies are in sync"})
	}
}

// leaders tells of partitions that nobody serves.
func (l *look) leaders(specs []TopicSpec, there kadm.TopicDetails) {
	var missing []string
	var brokers []int32
	for _, s := range specs {
		for _, p := range there[s.Name].Partitions.Sorted() {
			if p.Leader < 0 {
				missing = append(missing, s.Name+"/"+strconv.Itoa(int(p.Partition)))
				brokers = append(brokers, p.Replicas...)
			}
		}
	}
	if len(missing) > 0 {
		l.add(Finding{Check: CheckReplicas, Status: StatusFail, What: "nobody leads " + shortened(missing), passing: true,
			Remedy: "start the brokers that hold copies: " + numbers(brokers)})
	}
}

func without(all, some []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(all), func(n int32) bool { return slices.Contains(some, n) })
}

// shownMost keeps a list readable: a broker that is down concerns hundreds of partitions.
const shownMost = 6

func shortened(list []string) string {
	if len(list) <= shownMost {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:shownMost], ", "), len(list)-shownMost)
}

func numbers(brokers []int32) string {
	slices.Sort(brokers)
	var list []string
	for _, b := range slices.Compact(brokers) {
		list = append(list, strconv.Itoa(int(b)))
	}
	return strings.Join(list, ", ")
}
