//go:build synctests

package node_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

// fault is one kind of fault in a storm.
type fault struct {
	name   string
	inject func(s *storm)
}

// faultsOfStorms are the faults that a storm draws, with equal probability.
var faultsOfStorms = []fault{
	{"nothing", func(*storm) {}},
	{"a node is killed", func(s *storm) { s.crash(s.anyNode(), 100); s.perhapsStart() }},
	{"a machine loses its power", func(s *storm) {
		s.reached["a power cut took what was not synced"]++
		s.crash(s.anyNode(), s.dice.IntN(100))
		s.perhapsStart()
	}},
	{"a node starts on an older disk", func(s *storm) {
		h := s.anyNode()
		if s.crash(h, 100); h.older != nil {
			h.disk = h.older.Copy()
		}
		s.perhapsStart()
	}},
	{"a node starts on an empty disk", func(s *storm) {
		h := s.anyNode()
		if s.crash(h, 100); h.gone {
			h.disk = projectortest.NewDisk()
		}
		s.perhapsStart()
	}},
	{"a node is stopped", func(s *storm) {
		if h := s.anyNode(); !h.gone {
			require.NoError(s.t, h.stop())
		}
	}},
	{"a node is started", func(s *storm) { s.startOne() }},
	{"a node is paused", func(s *storm) { h := s.anyNode(); s.hold(h.net, h.net.freeze) }},
	{"a node hears nothing", func(s *storm) { h := s.anyNode(); s.hold(h.net, h.net.deafen) }},
	{"a crew is paused", func(s *storm) { c := s.anyCrew(); s.hold(c.net, c.net.freeze) }},
	{"the API's connection to the brokers is paused", func(s *storm) { s.hold(s.way, s.way.freeze) }},
	{"a crew is killed", func(s *storm) {
		if !s.back.IsZero() {
			return
		}
		i := s.dice.IntN(len(s.crews))
		s.crews[i].net.cut()
		s.crews[i].leave()
		s.retired = append(s.retired, s.crews[i])
		s.crews[i] = s.hire(s.ledger.act)
	}},
	{"connections break", func(s *storm) {
		for _, n := range s.networks() {
			n.reset()
		}
	}},
	{"everything is slow", func(s *storm) { s.slow() }},
	{"appends of an owner go wrong", func(s *storm) { s.appendsGoWrong() }},
	{"brokers refuse appends", func(s *storm) {
		topics := []string{"sagalog.events", "sagalog.reports", "sagalog.submissions", "sagalog.work.stock", "sagalog.presence"}
		codes := []string{
			"REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_ENOUGH_REPLICAS", "OUT_OF_ORDER_SEQUENCE_NUMBER",
			"UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH", "NOT_LEADER_FOR_PARTITION", "KAFKA_STORAGE_ERROR",
		}
		s.brokersSay("Produce", topics[s.dice.IntN(len(topics))], codes[s.dice.IntN(len(codes))])
	}},
	{"brokers refuse fetches", func(s *storm) {
		topics := []string{"sagalog.events", "sagalog.reports", "sagalog.submissions", "sagalog.work.bank"}
		codes := []string{"NOT_LEADER_FOR_PARTITION", "KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH", "UNKNOWN_SERVER_ERROR"}
		topic, code := topics[s.dice.IntN(len(topics))], codes[s.dice.IntN(len(codes))]
		if topic == s.topics.Events() && code == "UNKNOWN_SERVER_ERROR" {
			code = codes[0] // the observer reads there too, and would think that the log has ended
		}
		s.brokersSay("Fetch", topic, code)
	}},
	{"coordinators refuse", func(s *storm) {
		requests := []string{"Heartbeat", "OffsetCommit", "JoinGroup", "SyncGroup"}
		codes := []string{"REBALANCE_IN_PROGRESS", "NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "COORDINATOR_NOT_AVAILABLE"}
		s.brokersSay(requests[s.dice.IntN(len(requests))], "", codes[s.dice.IntN(len(codes))])
	}},
	{"leaders move", func(s *storm) { s.brokers.Shuffle() }},
	{"coordinators move", func(s *storm) { s.brokers.MoveCoordinators() }},
	{"garbage comes in", func(s *storm) {
		all := garbage()
		for _, topic := range []string{s.topics.Submissions(), s.topics.Reports(), s.topics.Presence(), s.topics.Work("bank")} {
			s.perhapsProduce(topic, 0, all[s.dice.IntN(len(all))])
		}
	}},
	{"records are doubled", func(s *storm) {
		for _, topic := range []string{s.topics.Submissions(), s.topics.Reports(), s.topics.Events(), s.topics.Work("stock")} {
			if list := s.perhapsRead(topic, 1); len(list) > 0 {
				from := s.dice.IntN(len(list))
				s.perhapsProduce(topic, 1, list[from:min(from+5, len(list))]...)
			}
		}
	}},
	{"a task is cancelled", func(s *storm) {
		if len(s.acked) > 0 {
			id := s.acked[s.dice.IntN(len(s.acked))]
			s.ask(events.RequestCancel, id, "c-"+id)
		}
	}},
	{"the agents leave", func(s *storm) { s.agentsLeave() }},
	{"a topic takes nothing for a minute", func(s *storm) {
		topics := []string{s.topics.Work("stock"), s.topics.Work("bank"), s.topics.Alerts(), s.topics.DeadSubmissions(), s.topics.Reports()}
		topic := topics[s.dice.IntN(len(topics))]
		s.note("%s takes nothing", topic)
		f := s.brokers.Fault(kafkatest.Fault{Request: "Produce", Topic: topic, Code: "NOT_ENOUGH_REPLICAS"})
		time.AfterFunc(s.lasts(time.Minute), f.Remove)
	}},
	{"a transaction stays open", func(s *storm) { s.transaction() }},
	{"a machine's clock is wrong", func(s *storm) {
		if len(s.absences) > 0 { // see agentsLeave
			return
		}
		h := s.anyNode()
		s.crash(h, 100)
		h.skew = []time.Duration{time.Hour, 48 * time.Hour, 20 * time.Minute, 0}[s.dice.IntN(4)]
		s.skewed = true
		s.note("skew %s", h.skew)
		s.perhapsStart()
	}},
}

func (s *storm) anyNode() *host { return s.nodes[s.dice.IntN(len(s.nodes))] }
func (s *storm) anyCrew() *crew { return s.crews[s.dice.IntN(len(s.crews))] }

func (s *storm) networks() []*network {
	list := []*network{s.way}
	for _, h := range s.nodes {
		list = append(list, h.net)
	}
	for _, c := range s.crews {
		list = append(list, c.net)
	}
	return list
}

// crash cuts a node off and keeps the given percentage of the unsynced data on its disk.
func (s *storm) crash(h *host, percent int) {
	if h.gone {
		return
	}
	h.net.cut()
	left := h.disk.PowerCut(percent, rand.New(rand.NewPCG(s.dice.Uint64(), 2)))
	_ = h.stop() // an error of a node that is cut off means nothing
	h.older, h.old, h.disk = h.old, h.disk.Copy(), left
}

// perhapsStart starts a node that is down, either now or later.
func (s *storm) perhapsStart() {
	if s.dice.IntN(2) == 0 {
		s.wait(0, 4*time.Second)
		s.startOne()
	}
}

func (s *storm) startOne() {
	for i, h := range s.nodes {
		if h.gone {
			s.start(i)
			return
		}
	}
}

// hold freezes a connection for a while; the storm continues.
func (s *storm) hold(n *network, how func()) {
	how()
	time.AfterFunc(time.Duration(s.dice.Int64N(int64(8*time.Second))), n.thaw)
}

// slow delays every frame by up to a hundred milliseconds for a while, each by a different number of nanoseconds.
func (s *storm) slow() {
	most := int64(1+s.dice.IntN(100)) * int64(time.Millisecond)
	for _, n := range s.networks() {
		dice := rand.New(rand.NewPCG(s.dice.Uint64(), 3))
		n.delay(func() time.Duration { return time.Duration(dice.Int64N(most)) })
		time.AfterFunc(time.Duration(s.dice.Int64N(int64(4*time.Second))), func() { n.delay(nil) })
	}
}

// appendsGoWrong makes the appends of one node fail or stall for a while.
func (s *storm) appendsGoWrong() {
	h := s.anyNode()
	if h.gone {
		return
	}
	dice := rand.New(rand.NewPCG(s.dice.Uint64(), 4))
	codes := []int16{requestTimedOut, notEnoughAfterAppend, outOfOrderSequence, invalidRecord, unknownServerError, unknownProducerID, notLeaderForPartition}
	left := 1 + s.dice.IntN(20)
	s.disturb(h.process, func(int) fate {
		if left--; left < 0 || dice.IntN(3) > 0 {
			return fate{}
		}
		switch dice.IntN(6) {
		case 0:
			return fate{cutBefore: true}
		case 1:
			return fate{cutAfter: true}
		case 2:
			return fate{silent: true}
		case 3:
			return fate{lost: true}
		case 4:
			return fate{late: time.Duration(dice.Int64N(int64(12 * time.Second)))}
		}
		return fate{code: codes[dice.IntN(len(codes))]}
	})
}

// perhapsProduce and perhapsRead meet the faults too, and give up at the first error.
func (s *storm) perhapsProduce(topic string, partition int32, records ...events.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, r := range records {
		r.Topic, r.Partition = topic, partition
		_, _ = s.producer.ProduceSync(ctx, r)
	}
}

func (s *storm) perhapsRead(topic string, partition int32) (list []events.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if end, err := s.cluster.EndOffset(ctx, topic, partition); err == nil && end > 0 {
		_ = s.cluster.ReadRange(ctx, topic, partition, 0, end, func(r events.Record) error {
			list = append(list, r)
			return nil
		})
	}
	return list
}

// ask is like request, but allows the brokers to refuse.
func (s *storm) ask(kind events.Verb, task, id string) {
	r, err := events.EncodeRequest(events.Request{ID: id, Kind: kind, Task: task, Reason: "because"}, events.Subject{ID: id, Source: "/test", Time: events.At(time.Now())})
	require.NoError(s.t, err)
	s.perhapsProduce(s.topics.Reports(), events.Home(task, s.parts), r)
}

func (s *storm) brokersSay(request, topic, code string) {
	s.note("%s %s %s", request, topic, code)
	f := kafkatest.Fault{Request: request, Topic: topic, Code: code, Count: 1 + s.dice.IntN(8)}
	s.faults = append(s.faults, s.brokers.Fault(f))
}
