package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
)

// namespace finds the number of partitions. It returns false if the topics cannot be examined without it.
func (e *examination) namespace(ctx context.Context, there kadm.TopicDetails) bool {
	ns := e.need.Topics.Namespace
	if !e.need.node() {
		e.made = int32(len(there[e.need.Topics.Submissions()].Partitions))
	} else if present(there, e.need.Topics.Definitions()) && e.need.Made != nil {
		var err error
		if e.made, err = e.need.Made(ctx); err != nil {
			f := Finding{Check: CheckNamespace, Status: StatusFail, What: fmt.Sprintf("namespace %s cannot be read: %s", ns, err),
				Remedy: "choose the --namespace of an engine, or one that has no topics yet", passing: kafka.IsPassing(err)}
			switch {
			case f.passing:
				f.Remedy = "look at the brokers' logs: the leader of " + e.need.Topics.Definitions() + " does not answer"
			case errors.Is(err, events.ErrReaderTooOld):
				f.Remedy = "run the newer version of sagalog that created this namespace, or choose another --namespace"
			}
			e.add(f)
			return false
		}
	}
	switch {
	case e.made > 0 && e.need.PartitionsSet && e.need.Partitions != e.made:
		e.add(Finding{Check: CheckNamespace, Status: StatusFail,
			What:   fmt.Sprintf("namespace %s has %d partitions, fixed when it was created, but --partitions is %d", ns, e.made, e.need.Partitions),
			Remedy: "leave out --partitions, or choose another --namespace"})
	case e.made > 0:
		e.add(Finding{Check: CheckNamespace, Status: StatusOK, What: fmt.Sprintf("namespace %s has %d partitions", ns, e.made)})
	case e.need.node():
		e.add(Finding{Check: CheckNamespace, Status: StatusOK, What: fmt.Sprintf("namespace %s does not exist yet: the first node creates it, with %d partitions", ns, e.need.Partitions)})
	default:
		e.add(Finding{Check: CheckNamespace, Status: StatusWarn, What: fmt.Sprintf("namespace %s does not exist yet: agents wait for it", ns),
			Remedy: "start a node with another role than agent"})
	}
	if e.need.Known != nil {
		e.findings = append(e.findings, e.need.Known(e.made > 0)...)
	}
	return true
}

// lasting holds the topics with accepted work.
func lasting(t kafka.Topics) []string { return []string{t.Events(), t.Submissions(), t.Reports()} }

// creation finds missing topics and decides whether to create them or to report them as lost.
func (e *examination) creation(specs []kafka.TopicSpec, there kadm.TopicDetails) {
	for _, s := range specs {
		if present(there, s.Name) {
			continue
		}
		if e.made > 0 && slices.Contains(lasting(e.need.Topics), s.Name) {
			e.add(Finding{Check: CheckTopics, Status: StatusFail,
				What:   fmt.Sprintf("the topic %s is missing although the namespace %s exists: accepted work is lost with it", s.Name, e.need.Topics.Namespace),
				Remedy: "restore it from a copy, or choose another namespace (--namespace), or delete all topics of this one"})
			continue
		}
		e.missing = append(e.missing, s)
	}
	if len(e.missing) > 0 {
		e.add(Finding{Check: CheckTopics, Status: StatusOK, What: fmt.Sprintf("%d topics are missing and can be created: %s", len(e.missing), strings.Join(kafka.TopicNames(e.missing), ", "))})
	}
}

// unseen says that a topic is the work topic of an agent of this process, whose settings we may not see. No role needs to: such a topic has no facts.
func (e *examination) unseen(there kadm.TopicDetails, topic string) bool {
	may := there[topic].AuthorizedOperations
	return strings.HasPrefix(topic, e.need.Topics.Work("")) && len(may) > 0 && !slices.Contains(may, opDescribeConfigs)
}

// settings audits the existing topics.
func (e *examination) settings(ctx context.Context, specs []kafka.TopicSpec, there kadm.TopicDetails) {
	specs = slices.DeleteFunc(slices.Clone(specs), func(s kafka.TopicSpec) bool { return !present(there, s.Name) || e.unseen(there, s.Name) })
	if !e.need.node() {
		return // agents store no facts: the nodes do the audit
	}
	if len(specs) == 0 {
		if rf, err := e.c.ReplicationFactor(ctx); err == nil { // otherwise the creation of topics reports it
			e.copies(int(rf))
		}
		return
	}
	a, err := audit(ctx, e.c, specs)
	if err != nil {
		e.add(Finding{Check: CheckTopics, Status: StatusFail, What: err.Error(), passing: true, Remedy: "look at the brokers' logs"})
		return
	}
	for _, p := range a.problems {
		if p.Setting == settingPartitions && e.made == 0 { // somebody created it by hand, before the first node
			p.Remedy = fmt.Sprintf("set --partitions %s, if all topics of the namespace have as many; or delete this one, if it is empty, so that it is created again: %s --delete --topic %s",
				p.Value, e.c.Config().Script("kafka-topics.sh"), p.Topic)
		}
		e.add(Finding{Check: CheckTopics, Status: StatusFail, What: p.what(), Remedy: p.Remedy})
	}
	if len(a.problems) == 0 {
		e.add(Finding{Check: CheckTopics, Status: StatusOK, What: fmt.Sprintf("%d topics have settings that lose nothing", len(specs))})
	}
	e.copies(a.replication)
	if few := a.fewCopies(); few.Status != "" {
		e.add(few)
	}
	e.inSync(specs, there, a.insync)
}

// copies warns if topics have a single copy. It also warns before they exist, because that is the cheapest time to learn it.
func (e *examination) copies(replication int) {
	if replication < kafka.SafeReplication && !e.c.Embedded() {
		e.add(Finding{Check: CheckReplicas, Status: StatusWarn, What: "there are fewer than three brokers, so new topics hold each record once: records on a lost disk are lost",
			Remedy: "run three brokers if records must not be lost"})
	}
}

// inSync reports partitions that cannot be appended to now, and partitions that one more loss would stop.
func (e *examination) inSync(specs []kafka.TopicSpec, there kadm.TopicDetails, insync map[string]int) {
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
		e.add(Finding{Check: CheckReplicas, Status: StatusFail, later: true,
			What:   "fewer copies are in sync than min.insync.replicas, so appends are refused at present: " + shortened(refusing),
			Remedy: "start the brokers whose copies are behind: " + numbers(refusers)})
	}
	if len(behind) > 0 {
		e.add(Finding{Check: CheckReplicas, Status: StatusWarn,
			What: "not all copies are in sync: " + shortened(behind), Remedy: "start the brokers whose copies are behind: " + numbers(followers)})
	}
	if len(refusing)+len(behind) == 0 {
		e.add(Finding{Check: CheckReplicas, Status: StatusOK, What: "all copies are in sync"})
	}
}

// leaders reports partitions without a leader.
func (e *examination) leaders(specs []kafka.TopicSpec, there kadm.TopicDetails) {
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
		e.add(Finding{Check: CheckReplicas, Status: StatusFail, What: "no broker leads " + shortened(missing), passing: true,
			Remedy: "start the brokers that hold copies: " + numbers(brokers)})
	}
}

func without(all, some []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(all), func(n int32) bool { return slices.Contains(some, n) })
}

// shownMost keeps a list short: a broker that is down affects hundreds of partitions.
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
