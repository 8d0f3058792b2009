package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/internal/repeats"
	"github.com/sagalog/sagalog/internal/webhook"
)

const (
	// maxDeliveries bounds the messages that a node sends at a time: enough for 800 a second to a receiver that takes 10 ms.
	maxDeliveries = 8
	// webhookLook is how often a node checks which partitions it owns, and which messages are due again.
	webhookLook = 250 * time.Millisecond
	// webhookCommit is how often positions are committed: what was delivered after the last commit is delivered again after a crash.
	webhookCommit = time.Second
	// webhookRenew is how often an unchanged position is committed again: brokers forget positions after some days (offsets.retention.minutes).
	webhookRenew = 6 * time.Hour
	// webhookWithin bounds a request to the brokers, so that a dead one does not stop those that follow.
	webhookWithin = 10 * time.Second
	// webhookLast bounds the last commit of a node that stops.
	webhookLast = 2 * time.Second
	// webhookRecords bounds one fetch of all partitions together.
	webhookRecords = 4096
)

// Webhook says which messages are delivered to which receiver.
type Webhook struct {
	Sender *webhook.Sender
	// On are the kinds of messages; nil for the default ones.
	On []string
	// FromStart makes a namespace that has delivered nothing yet begin at the start of its log instead of its end.
	FromStart bool
	// GiveUpAfter is how long a message is tried; default webhook.GiveUpAfter.
	GiveUpAfter time.Duration
}

// webhooks delivers messages about the partitions that this node owns. Only Run's goroutine touches the streams. Attempts and requests to the
// brokers have their own goroutines, and no owner waits for any of these.
//
//	 look (the partition is owned)        take                  ready                  settle
//	not followed ------------------> read -------> outstanding -------> being sent -----------> delivered or given up
//	                                                    ^                   |
//	                                                    +-------------------+
//	                                                      settle (it failed)
//
// Invariant: a committed position covers a message only if it was delivered or given up, by this node or by one whose commit it resumed
// from. So a message is delivered at least once, even if two nodes believe that they own its partition.
type webhooks struct {
	ns     *namespace
	owners *owners
	store  *stateStore
	sender *webhook.Sender
	on     map[string]bool
	start  bool
	giveUp time.Duration
	log    *slog.Logger
	// often is for what may be so for hours, of every partition and message.
	often   *slog.Logger
	metrics *webhookMetrics
	reader  *kafka.Reader
	marks   *kafka.Bookmarks

	// Owned by Run. order has the streams in the order in which they take turns.
	streams map[place]*webhookStream
	order   []*webhookStream
	// first is where the search for a message to send begins, so that each partition has its turn.
	first int
	// sending counts the attempts under way. asking and committing say that a request is under way.
	sending            int
	asking, committing bool
	committed, renewed time.Time
	// left are the last positions of partitions that moved away.
	left kafka.Positions
	// failing says that the last attempt failed.
	failing bool

	fetched   chan []kafka.Fetch
	attempts  chan attempted
	positions chan foundPositions
	commits   chan commitResult
	wg        sync.WaitGroup
}

// attempted is the outcome of an attempt.
type attempted struct {
	stream *webhookStream
	of     *outstanding
	// id is the ID of the message, "" if the message could not be made.
	id     string
	answer webhook.Answer
	err    error
	// gone says that the message can never be sent, and unwanted that none is to be sent.
	gone, unwanted bool
}

type foundPositions struct {
	of  kafka.Positions
	err error
}

type commitResult struct {
	of  kafka.Positions
	err error
}

func newWebhooks(n *Node) (*webhooks, error) {
	c := n.cfg.Webhook
	_, on := WebhookKinds()
	if c.On != nil {
		on = c.On
	}
	w := &webhooks{
		ns: n.ns, owners: n.owners, store: n.store, marks: kafka.NewBookmarks(n.ns.cluster, kafka.Groups{Namespace: n.ns.name}.Webhook()), sender: c.Sender, on: map[string]bool{}, start: c.FromStart, giveUp: cmp.Or(c.GiveUpAfter, webhook.GiveUpAfter), log: n.cfg.Logger.With("receiver", c.Sender.Host()),
		streams: map[place]*webhookStream{}, left: kafka.Positions{}, fetched: make(chan []kafka.Fetch), attempts: make(chan attempted, maxDeliveries),
		positions: make(chan foundPositions, 1), commits: make(chan commitResult, 1),
	}
	for _, kind := range on {
		if webhookKinds[kind] == "" {
			return nil, fmt.Errorf("webhook: %q is not a kind of message", kind)
		}
		w.on[kind] = true
	}
	w.often = repeats.Limited(w.log)
	var err error
	if w.metrics, err = newWebhookMetrics(n.cfg.Registry); err != nil {
		return nil, err
	}
	w.reader, err = kafka.NewReader(n.ns.cluster, kafka.ReaderConfig{MaxRecords: webhookRecords})
	return w, err
}

// Run delivers until ctx ends.
func (w *webhooks) Run(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	w.wg.Go(func() { w.poll(inner) })
	ticks := time.NewTicker(webhookLook)
	defer ticks.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case list := <-w.fetched:
			w.take(list)
		case a := <-w.attempts:
			w.settle(a)
		case p := <-w.positions:
			w.begin(p)
		case c := <-w.commits:
			w.confirm(c)
		case <-ticks.C:
			w.look(inner)
		}
		w.send(inner)
	}
	cancel()
	w.reader.Close()
	w.wg.Wait()
	w.stop(context.WithoutCancel(ctx))
	return nil
}

func (w *webhooks) poll(ctx context.Context) {
	for {
		list, err := w.reader.Poll(ctx)
		if ctx.Err() != nil || errors.Is(err, kafka.ErrClosed) {
			return
		}
		if err != nil {
			w.often.Warn("the log cannot be read for the webhook; trying again", "error", err)
			if !pause.For(ctx, webhookCommit) {
				return
			}
			continue
		}
		select {
		case w.fetched <- list:
		case <-ctx.Done():
			return
		}
	}
}

// look follows the partitions that this node owns, and leaves the others.
func (w *webhooks) look(ctx context.Context) {
	missing := false
	for p := range w.ns.partitions {
		owned := w.owners.owns(p)
		for _, at := range w.places(p) {
			s := w.streams[at]
			switch {
			case owned && s == nil:
				missing = true
			case !owned && s != nil:
				w.leave(s)
			}
		}
	}
	for _, s := range w.order {
		w.check(s)
	}
	if missing && !w.asking {
		w.asking = true
		w.wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, webhookWithin)
			defer cancel()
			of, err := w.marks.Committed(ctx)
			w.positions <- foundPositions{of, err}
		})
	}
	if time.Since(w.committed) >= webhookCommit && !w.committing {
		w.commit(ctx)
	}
	w.metrics.show(w.streams, w.end)
}

// end returns the end of the log of a stream, as far as this node has folded it. It is not known for the topic of alerts.
func (w *webhooks) end(s *webhookStream) int64 {
	if s.topic == w.ns.topics.Alerts() {
		return s.next
	}
	return w.store.Partition(s.partition).Next()
}

// places returns what the owner of a partition delivers. The owner of the first one also delivers the alerts that no fact raises.
func (w *webhooks) places(p int32) []place {
	list := []place{{w.ns.topics.Events(), p}}
	if p == 0 {
		list = append(list, place{w.ns.topics.Alerts(), 0})
	}
	return list
}

// leave stops following a partition. Attempts under way go on; their outcomes no longer count.
func (w *webhooks) leave(s *webhookStream) {
	if s.due {
		w.put(w.left, s)
	}
	delete(w.streams, s.place)
	w.order = slices.DeleteFunc(w.order, func(x *webhookStream) bool { return x == s })
	w.reader.Remove(s.topic, s.partition)
}

// begin follows the partitions that this node has come to own.
func (w *webhooks) begin(found foundPositions) {
	w.asking = false
	if found.err != nil {
		w.often.Warn("the stored positions of the webhook cannot be read; trying again", "error", found.err)
		return
	}
	for p := range w.ns.partitions {
		for _, at := range w.places(p) {
			if !w.owners.owns(p) || w.streams[at] != nil {
				continue
			}
			s := &webhookStream{place: at}
			stored, known := found.of[at.topic][at.partition]
			if err := w.position(s, stored, known); err != nil {
				w.often.Warn("the webhook cannot begin to read a partition; trying again", "topic", at.topic, "partition", at.partition, "error", err)
				continue
			}
			delete(w.left[at.topic], at.partition)
			w.streams[at], w.order = s, append(w.order, s)
			w.read(s)
		}
	}
}

func (w *webhooks) read(s *webhookStream) {
	s.added = w.reader.Add(s.topic, s.partition, s.next, -1)
}

// take takes what was read.
func (w *webhooks) take(list []kafka.Fetch) {
	for _, f := range list {
		s := w.streams[place{f.Topic, f.Partition}]
		if s == nil || s.added != f.Added {
			continue
		}
		more, err := s.take(f.Records, w.wanted, time.Now())
		switch {
		case err != nil:
			w.often.Error("a record of the log cannot be decoded, so the webhook delivers nothing more of its partition; upgrade this node",
				"error", err)
			w.unread(s)
		case !more:
			w.unread(s)
		case f.Err != nil:
			w.interrupted(s, f.Err)
		case f.Next > s.next:
			s.next, s.due = f.Next, true
		}
	}
}

// unread stops reading a partition. Reading resumes at the position.
func (w *webhooks) unread(s *webhookStream) {
	w.reader.Remove(s.topic, s.partition)
	s.added = 0
}

// send starts attempts, up to maxDeliveries at a time.
func (w *webhooks) send(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	for idle := 0; w.sending < maxDeliveries && idle < len(w.order); w.first++ {
		s := w.order[w.first%len(w.order)]
		m := s.ready(now)
		if idle++; m == nil {
			continue
		}
		idle = 0
		m.sending = true
		w.sending++
		w.wg.Go(func() { w.attempts <- w.attempt(ctx, s, m) })
	}
}

// attempt sends one message.
func (w *webhooks) attempt(ctx context.Context, s *webhookStream, m *outstanding) attempted {
	out := attempted{stream: s, of: m}
	reading, cancel := context.WithTimeout(ctx, webhookWithin)
	r, err := w.ns.cluster.ReadAt(reading, s.topic, s.partition, m.offset)
	cancel()
	if err != nil {
		out.err = fmt.Errorf("read the record of the message: %w", err)
		out.gone = errors.As(err, new(*kafka.OutOfRangeError)) || errors.Is(err, kafka.ErrNoRecord)
		return out
	}
	message, err := w.message(ctx, &r)
	if errors.Is(err, errUnwanted) {
		out.unwanted = true
		return out
	}
	if err != nil {
		out.err, out.gone = err, true
		return out
	}
	out.id = message.ID
	out.answer, out.err = w.sender.Send(ctx, message)
	return out
}

func (a *attempted) delivered() bool { return a.err == nil && a.answer.Delivered() }

func (a *attempted) failure() error {
	if a.err != nil {
		return a.err
	}
	return errors.New(a.answer.String())
}

// settle takes the outcome of an attempt.
func (w *webhooks) settle(a attempted) {
	w.sending--
	a.of.sending = false
	s, m := a.stream, a.of
	log := w.log.With("topic", s.topic, "partition", s.partition, "offset", m.offset, "id", a.id)
	switch {
	case a.unwanted:
		s.done(m)
		log.Warn("a record that waited for the webhook causes no message any more: --webhook-on does not name its kind, or the log has another record there now")
	case a.delivered():
		w.metrics.delivered.Inc()
		s.done(m)
		if w.failing {
			w.failing = false
			log.Info("the receiver of the webhook accepts messages again")
		}
	case a.gone || time.Since(m.since) >= w.giveUp:
		w.metrics.givenUp.Inc()
		s.done(m)
		log.Error("a message of the webhook is given up and will never be delivered", "attempts", m.failures+1, "error", a.failure())
	default:
		w.metrics.failed.Inc()
		m.failures++
		wait := webhook.Pause(m.failures, a.answer, rand.Float64())
		m.again, w.failing = time.Now().Add(wait), true
		w.often.Warn("a message of the webhook was not delivered; trying again",
			"topic", s.topic, "partition", s.partition, "offset", m.offset, "id", a.id, "attempts", m.failures, "pause", wait.Round(time.Millisecond), "error", a.failure())
	}
}
