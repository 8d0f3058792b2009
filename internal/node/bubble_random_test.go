//go:build synctests

package node_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

var (
	bubbleSeeds = flag.Int("bubble.seeds", 20, "how many seeds the random test of whole nodes runs")
	bubbleSeed  = flag.Uint64("bubble.seed", 1, "the first seed")
)

// gate says whether the tests run at the size of the gate (.ci/run) or of a release.
func gate() bool { return *bubbleSeeds >= 60 }

// trip is a workflow with two agents, short enough for many seeds.
const trip = `
workflow: order
defaults:
  complete_within: 2s
  retry: {attempts: 3, backoff: 100ms, factor: 2, max_backoff: 1s, then: undo}
  undo: {retry: {attempts: 4, backoff: 100ms, factor: 2, max_backoff: 1s}}
steps:
  reserve:
    agent: stock
    with: {id: "${ task.id }"}
    undo: {}
  charge:
    needs: [reserve]
    agent: bank
    with: {id: "${ task.id }"}
    undo: {}
  ship:
    needs: [charge]
    agent: stock
    with: {id: "${ task.id }"}
    pivot: true
    retry: {attempts: 3, backoff: 100ms, factor: 2, max_backoff: 1s, then: park}
output: "${ steps.ship.output }"
`

// journey is a workflow with items and a child, and hotel is that of the child.
const journey = "workflow: journey\n" + journeyDefaults + `
steps:
  seats:
    for: {each: "${ input.seats }", as: seat, parallel: 2, tolerate: 1, collect: none}
    agent: stock
    with: {seat: "${ seat }"}
    undo: {}
  child:
    needs: [seats]
    child: {workflow: hotel}
    undo: {}
  bill:
    needs: [child]
    agent: bank
    undo: {}
`

const hotel = "workflow: hotel\n" + journeyDefaults + `
steps:
  room: {agent: stock, undo: {}}
  breakfast: {needs: [room], agent: bank, undo: {}}
`

const journeyDefaults = `
defaults:
  complete_within: 2s
  retry: {attempts: 2, backoff: 100ms, then: undo}
  undo: {retry: {attempts: 4, backoff: 100ms, factor: 2, max_backoff: 1s}}`

// stepsOf are the steps, by workflow, that agents do; those of a journey besides its items.
var stepsOf = map[string][]string{"order": {"reserve", "charge", "ship"}, "journey": {"bill"}, "hotel": {"room", "breakfast"}}

// storm is one seed: whole nodes and agents, with faults drawn at random.
type storm struct {
	*world
	seed    uint64
	dice    *rand.Rand
	brokers *kafkatest.Fake
	nodes   []*host
	crews   []*crew
	retired []*crew
	faults  []*kafkatest.Faulty
	ledger  *ledger
	api     *kafka.Producer
	way     *network
	acked   []string
	begun   time.Time
	log     []string
	reached map[string]int
	// back is when the agents return, zero while they are there. until is when the last fault ends that healing does not end.
	back, until time.Time
	// absences are the times without agents, and holds those in which reports of a partition lay behind an open transaction, as far as
	// owners must know of them.
	absences, holds []period
	skewed          bool
	healed          time.Time
}

// host is a machine: its disk outlives the nodes that run on it.
type host struct {
	*process
	disk *projectortest.Disk
	// old is a copy of the disk from the latest crash, older one from the crash before.
	old, older *projectortest.Disk
	skew       time.Duration
}

// tally counts the situations that all seeds together have reached.
type tally struct {
	mu    sync.Mutex
	count map[string]int
}

func (y *tally) add(of map[string]int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for k, n := range of {
		y.count[k] += n
	}
}

func TestRandomFaults(t *testing.T) {
	// A run is short and keeps little memory. Collecting garbage less often makes it a fifth
	// faster.
	percent := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	total := &tally{count: map[string]int{}}
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for i := range *bubbleSeeds {
			seed := *bubbleSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				bubble(t, func(t *testing.T) { ride(t, seed, total) })
			})
		}
	})
	t.Logf("%d seeds in %s; reached:", *bubbleSeeds, time.Since(began).Round(time.Millisecond))
	for _, k := range slices.Sorted(maps.Keys(total.count)) {
		t.Logf("%8d  %s", total.count[k], k)
	}
	if !gate() || t.Failed() {
		return
	}
	for _, f := range faultsOfStorms {
		require.Positive(t, total.count["fault: "+f.name], "the fault %q was never injected", f.name)
	}
	for _, s := range situations {
		require.Positive(t, total.count[s], "never reached: %s", s)
	}
	if *bubbleSeeds >= 200 {
		require.Positive(t, total.count[rareSituation], "never reached: %s", rareSituation)
	}
}

// situations are the ones that a run of the size of the gate must have reached, or it proves nothing.
var situations = []string{
	"a task was processed", "a task was undone", "a task was parked", "an attempt timed out", "an attempt failed",
	"a partition changed hands", "a record of a deposed owner was void", "a call was repeated",
	"an input was rejected", "a power cut took what was not synced", "a task was submitted twice",
	"the agents came back", "a transaction held an input back", "a do was undone at a service that does not refuse it afterwards",
	"an effect landed late", "an undo found nothing", "an item was undone", "a child was processed", "a child was undone",
}

// rareSituation is reached by one seed in twenty, and so by most thirds of the gate, but not by each.
const rareSituation = "a claim was refused"

func ride(t *testing.T, seed uint64, total *tally) {
	s := &storm{seed: seed, dice: rand.New(rand.NewPCG(seed, 1)), reached: map[string]int{}, ledger: newLedger(seed)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay: go test -tags synctests ./internal/node -run TestRandomFaults -bubble.seeds 1 -bubble.seed %d\ninjected:\n%s", seed, strings.Join(s.log, "\n"))
		}
	})
	s.world, s.brokers = setupFake(t, 2, 2)
	s.kinds = []string{"stock", "bank"}
	s.begun = time.Now()
	s.connectAPI()
	for range 2 {
		s.nodes = append(s.nodes, &host{disk: projectortest.NewDisk()})
		s.start(len(s.nodes) - 1)
	}
	for _, w := range []string{trip, hotel, journey} {
		s.apply(s.nodes[0].process, w)
	}
	for range 2 {
		s.crews = append(s.crews, s.hire(s.ledger.act))
	}
	for range 8 + s.dice.IntN(10) {
		s.comeBack()
		s.submitSome()
		f := faultsOfStorms[s.dice.IntN(len(faultsOfStorms))]
		s.note("fault: %s", f.name)
		s.reached["fault: "+f.name]++
		f.inject(s)
		s.wait(50*time.Millisecond, 1200*time.Millisecond)
	}
	s.heal()
	s.rest()
	s.prove()
	total.add(s.reached)
}

func (s *storm) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%10.3f  ", time.Since(s.begun).Seconds())+fmt.Sprintf(format, args...))
}

// wait sleeps for a duration that differs from every other wait by some nanoseconds, so that a seed nearly always runs
// the same way again.
func (s *storm) wait(least, most time.Duration) {
	<-time.After(least + time.Duration(s.dice.Int64N(int64(most-least))))
}

// connectAPI opens a producer like the API's, with its own connection to the brokers.
func (s *storm) connectAPI() {
	s.way = s.world.way()
	cluster, err := kafka.Connect(reach{s.broker, s.way}.ClusterConfig())
	require.NoError(s.t, err)
	s.api, err = kafka.NewProducer(cluster)
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		s.api.Close()
		cluster.Close()
		s.way.cut()
	})
}

func (s *storm) start(i int) {
	h := s.nodes[i]
	h.process = s.node(memory, together, on(h.disk), func(c *node.Config) {
		c.Name = fmt.Sprintf("node-%d", i)
		c.Now = func() time.Time { return time.Now().Add(h.skew) }
	})
}

// submitSome submits tasks as the API does, some of them twice. Each acknowledged one must end.
func (s *storm) submitSome() {
	for i := range 1 + s.dice.IntN(3) {
		id := fmt.Sprintf("t-%d-%d", len(s.log), i)
		r := under(s.world, submission(id, map[string]any{"n": 1}))
		if s.dice.IntN(3) == 0 {
			seats := []int{1, 2, 3, 4, 5}[:1+s.dice.IntN(5)]
			r = under(s.world, submissionOf("journey", id, map[string]any{"seats": seats}))
		}
		if s.dice.IntN(4) == 0 {
			s.reached["a task was submitted twice"]++
			s.offer(id, r)
		}
		s.offer(id, r)
	}
}

func (s *storm) offer(id string, r events.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if _, err := s.api.ProduceSync(ctx, r); err != nil {
		s.note("submission of %s was not acknowledged: %v", id, err)
		return
	}
	if !slices.Contains(s.acked, id) {
		s.acked = append(s.acked, id)
	}
}

// heal ends every fault. From now on the agents do all work that they receive.
func (s *storm) heal() {
	s.note("healing")
	s.healed = time.Now()
	for _, f := range s.faults {
		f.Remove()
	}
	s.way.delay(nil)
	s.way.thaw()
	for i, h := range s.nodes {
		h.net.delay(nil)
		h.net.inject(nil, nil)
		h.net.thaw()
		if h.gone {
			s.start(i)
		}
	}
	for _, c := range s.crews {
		c.net.delay(nil)
		c.net.inject(nil, nil)
		c.net.thaw()
	}
	s.ledger.fixed.Store(true)
}

// rest waits until every acknowledged task has ended. It retries parked tasks, as an operator would.
func (s *storm) rest() {
	begun := time.Now()
	retried := map[string]int{}
	for {
		s.comeBack()
		var open []string
		s.watch.mu.Lock()
		require.NoError(s.t, s.watch.err)
		for _, id := range s.all() {
			t := s.watch.task(id)
			switch {
			case t == nil || !t.State.Ended() && t.State != events.TaskStateError:
				open = append(open, id)
			case t.State == events.TaskStateError:
				s.reached["a task was parked"]++
				open = append(open, id)
				retried[id]++
			}
		}
		s.watch.mu.Unlock()
		if len(open) == 0 {
			s.note("at rest %s after healing", time.Since(begun))
			return
		}
		for _, id := range open {
			if n := retried[id]; n > 0 && n%20 == 1 {
				s.ask(events.RequestRetry, id, fmt.Sprintf("r-%s-%d", id, n))
			}
		}
		if time.Since(begun) > time.Minute && time.Since(s.until) > time.Minute {
			s.tell(open)
			require.FailNow(s.t, "tasks do not end", "%v", open)
		}
		pause := 100 * time.Millisecond
		if wait := time.Until(s.until); wait > time.Minute {
			pause = wait - time.Minute
		}
		<-time.After(pause)
	}
}

// all returns the acknowledged tasks and those of their children that exist. The observer must be locked.
func (s *storm) all() []string {
	list := slices.Clone(s.acked)
	for _, id := range s.acked {
		if child := id + "/child"; s.watch.task(child) != nil {
			list = append(list, child)
		}
	}
	return list
}

// tell logs the state of a storm that did not finish.
func (s *storm) tell(open []string) {
	for _, id := range open {
		s.t.Logf("%s in partition %d: %v\n%s", id, events.Home(id, s.parts), s.watch.story(id), s.ledger.of(id))
	}
	for _, h := range s.nodes {
		for p := range s.parts {
			status, err := h.Status(p)
			stats := status.Stats
			s.t.Logf("%s partition %d: %+v %+v %v, ready: %v", h.name, p, status, stats, err, h.Ready())
		}
	}
	s.logs.mu.Lock()
	defer s.logs.mu.Unlock()
	s.t.Log(strings.Join(s.logs.lines[max(0, len(s.logs.lines)-40):], "\n"))
}

func (s *storm) prove() {
	<-time.After(2 * time.Second) // late records arrive and are judged
	for _, h := range s.nodes {
		require.NoError(s.t, h.stop())
	}
	void := s.watch.verify()
	s.oneOutcome()
	s.nothingRashHappened()
	all := &crew{}
	for _, c := range append(s.crews, s.retired...) {
		all.calls = append(all.calls, c.all()...)
	}
	s.everyCallIsInTheLog(all)
	s.everyStepWasDone(all)
	s.effectsAgree()
	for _, h := range s.nodes {
		s.proveDisks(h.disk)
	}
	s.observerAgrees()
	s.sum(all, void)
}

// effectsAgree compares the states of the tasks with what the services hold, and those of parents with those of children.
func (s *storm) effectsAgree() {
	s.watch.mu.Lock()
	all := s.all()
	s.watch.mu.Unlock()
	for _, id := range all {
		task := s.found(id)
		done := task.State == events.TaskStateProcessed
		for _, step := range stepsOf[task.Workflow] {
			s.agrees(task, step, done)
		}
		if task.Workflow != "journey" {
			continue
		}
		for _, at := range task.Steps {
			if events.IsItem(at.Path) {
				s.agrees(task, at.Path, done && !at.Continued)
			}
		}
		child := s.found(id + "/child")
		switch {
		case done:
			require.NotNil(s.t, child, "%s is processed without its child", id)
			require.Equal(s.t, events.TaskStateProcessed, child.State, "the child of %s, which is processed", id)
			s.reached["a child was processed"]++
		case child != nil:
			require.NotEqual(s.t, events.TaskStateProcessed, child.State, "the child of %s, which is %s\n%v", id, task.State, s.watch.story(id))
			s.reached["a child was undone"]++
		}
	}
}

func (s *storm) agrees(task *events.Task, step string, want bool) {
	s.t.Helper()
	require.Equal(s.t, want, s.ledger.holds(task.ID, step), "%s is %s: is %s done?\n%v\n%s", task.ID, task.State, step, s.watch.story(task.ID), s.ledger.of(task.ID))
}

// sum adds the situations that this seed reached to the tally.
func (s *storm) sum(all *crew, void int) {
	owner := map[int32]string{}
	for _, f := range s.watch.log() {
		c, claim := f.fact.Body.(*events.PartitionClaimed)
		switch {
		case claim && f.fate != events.FateAccepted:
			s.reached[rareSituation]++
		case claim:
			if was := owner[f.partition]; was != "" && was != c.Owner {
				s.reached["a partition changed hands"]++
			}
			owner[f.partition] = c.Owner
		case f.fate != events.FateAccepted:
			s.reached["a record of a deposed owner was void"]++
		}
		switch b := f.fact.Body.(type) {
		case *events.Compensated:
			if events.IsItem(b.Step) {
				s.reached["an item was undone"]++
			}
		case *events.TaskProcessed:
			s.reached["a task was processed"]++
		case *events.TaskUndone:
			s.reached["a task was undone"]++
		case *events.Timeout:
			s.reached["an attempt timed out"]++
		case *events.StepFailed, *events.CompensationFailed:
			s.reached["an attempt failed"]++
		case *events.InputRejected:
			s.reached["an input was rejected"]++
		}
	}
	s.reached["a call was repeated"] += all.repeats()
	s.ledger.tell(s.reached)
	s.reached["records in events"] += len(s.watch.log())
	s.reached["void records"] += void
	s.reached["epochs"] += epochs(s.watch.log())
	s.reached["virtual seconds"] += int(time.Since(s.begun).Seconds())
}
