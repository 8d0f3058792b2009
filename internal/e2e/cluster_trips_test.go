package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// tripDefaults outlast the outages of this test, so that no trip is undone or parked because of one.
const tripDefaults = `defaults:
  complete_within: 10s
  retry: {attempts: 90, backoff: 200ms, max_backoff: 1s, then: undo}
  undo: {retry: {attempts: 90, backoff: 200ms, max_backoff: 1s}}
steps:
`

// legs are the steps of a trip that children do, and the services at which each child has something in force when it was processed.
var legs = map[string][]string{
	"flight": {"transport", "package"},
	"hotel":  {"package", "drone"},
	"car":    {"transport", "package", "drone"},
}

// tripFiles are the workflow of a trip, whose three legs are done by children, and the workflows of these. The check comes when all
// legs are booked, and a suspended owner undoes them.
var tripFiles = map[string]string{
	"trip.yaml": "workflow: trip\n" + tripDefaults + `  flight: {child: {workflow: flight-booking}, with: {}, undo: {}}
  hotel: {child: {workflow: hotel-booking}, with: {}, undo: {}}
  car: {child: {workflow: car-booking}, with: {}, undo: {}}
  check: {needs: [flight, hotel, car], agent: account, with: {owner: "${ input.owner }", id: "${ task.id }"}}
  confirm: {needs: [check], agent: delivery, with: {id: "${ task.id }"}, pivot: true}
`,
	"flight.yaml": "workflow: flight-booking\n" + tripDefaults + `  seat: {agent: transport, with: {id: "${ task.id }"}, undo: {}}
  ticket: {needs: [seat], agent: package, with: {id: "${ task.id }", package: {}}, undo: {}}
`,
	"hotel.yaml": "workflow: hotel-booking\n" + tripDefaults + `  room: {agent: package, with: {id: "${ task.id }", package: {}}, undo: {}}
  breakfast: {needs: [room], agent: drone, with: {delivery: "${ task.id }"}, undo: {}}
`,
	"car.yaml": "workflow: car-booking\n" + tripDefaults + `  car: {agent: transport, with: {id: "${ task.id }"}, undo: {}}
  insurance: {agent: package, with: {id: "${ task.id }", package: {}}, undo: {}}
  driver: {needs: [car, insurance], agent: drone, with: {delivery: "${ task.id }"}, undo: {}}
`,
}

// suspendedEvery is which trips have an owner that is refused when all legs are booked: each sixth.
const suspendedEvery = 6

// trips is a cluster on which trips run while its parts are killed.
type trips struct {
	*cluster
	r        *rand.Rand
	count    int
	services []string
	killed   map[string]int
	// acknowledged counts the submissions that the log has.
	acknowledged atomic.Int64
}

func tripID(i int) string { return fmt.Sprintf("t-%d", i) }

// Trips run whose legs are children, while owners, agents, services and a broker are killed by kill -9, and services refuse some legs and some
// trips. Each trip and each child ends, all of a trip is done or all of it is undone, and no child is left alone.
func TestClusterTrips(t *testing.T) {
	besideOthers(t)
	o := kafkatest.Options{}
	if full {
		o = replicated(map[string]string{"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"})
	}
	services := []string{"--port-base", strconv.Itoa(fivePorts(t)), "--refuse", "drone=0.1", "--hang", hangRate()}
	c := &trips{
		cluster: newCluster(t, o, services...), r: rand.New(rand.NewPCG(seed(t), 44)),
		count: sized(*tripsFlag, 200, 10_000), services: services, killed: map[string]int{},
	}
	for name, text := range tripFiles {
		require.NoError(t, os.WriteFile(filepath.Join(c.files, name), []byte(text), 0o600))
	}
	owners := []*member{c.up("n1", "owner", "api", "projector"), c.up("n2", "owner", "api", "projector")}
	agents := []*member{c.up("a1", "agent"), c.up("a2", "agent")}
	c.even(patience)

	begun := time.Now()
	submitted := c.submit(time.Duration(float64(c.count) / sized(*rateFlag, 10, 20) * float64(time.Second)))
	c.killUntil(submitted, owners, agents)
	require.EqualValues(t, c.count, c.acknowledged.Load())
	c.allEnd()
	t.Logf("%d trips in %s; killed: %v", c.count, time.Since(begun).Round(time.Millisecond), c.killed)

	c.compare()
	for _, m := range owners {
		m.ready()
	}
	c.hashes()
	c.verified(owners)
}

// verified runs `sagalog verify` on everything. The nodes are stopped.
func (c *trips) verified(owners []*member) {
	t := c.t
	t.Helper()
	args := []string{"verify", "--brokers", c.brokers, "--ledgers", c.fleet.dir, "--at-rest"}
	for _, m := range owners {
		args = append(args, "--store", m.data)
	}
	code, out, errs := output(t, program("sagalog"), args...)
	require.Zero(t, code, "%s\n%s", out, errs)
	t.Logf("sagalog verify:\n%s", strings.TrimSpace(out))
}

// submit writes the submissions to Kafka at a steady rate, each until it is acknowledged. What it returns gets the first error, and is closed
// at the end.
func (c *trips) submit(span time.Duration) <-chan error {
	client := newClient(c.t, c.conn)
	done := make(chan error, 1)
	partitions, err := c.conn.Partitions(c.t.Context(), topics.Submissions())
	require.NoError(c.t, err)
	go func() {
		defer close(done)
		due := time.NewTicker(span / time.Duration(c.count))
		defer due.Stop()
		for i := range c.count {
			owner := "owner-1"
			if i%suspendedEvery == 0 {
				owner = "suspended-1"
			}
			body := fmt.Sprintf(`{"id":%q,"workflow":"trip","input":{"owner":%q}}`, tripID(i), owner)
			if err := client.send(context.WithoutCancel(c.t.Context()), submission(events.Home(tripID(i), partitions), tripID(i), []byte(body))); err != nil {
				done <- err
				return
			}
			c.acknowledged.Add(1)
			<-due.C
		}
	}()
	return done
}

// leastKills is the number of kills of which the broker's is the middle one.
const leastKills = 8

// killUntil kills one part after another, and starts each again, until all is submitted and enough died.
func (c *trips) killUntil(submitted <-chan error, owners, agents []*member) {
	over := false
	for n := 0; !over || n < leastKills; n++ {
		select {
		case err, open := <-submitted:
			require.NoError(c.t, err)
			over = over || !open
		default:
		}
		after(c.t, time.Duration((0.3+c.r.Float64())*float64(time.Second)))
		down := time.Duration(c.r.Float64() * float64(2*time.Second))
		switch what := c.r.IntN(5); {
		case n%(leastKills*10) == leastKills/2:
			c.killed["broker"]++
			broker := 1 + c.r.IntN(len(strings.Split(c.brokers, ",")))
			c.kafka.Kill(broker)
			after(c.t, down)
			c.kafka.Start(broker)
			c.kafka.AwaitInSync()
		case what == 0:
			c.killed["services"]++
			c.fleet.kill()
			after(c.t, down)
			c.fleet = startFleet(c.t, c.work, c.services...)
		case what < 3:
			c.killed["owner"]++
			c.again(owners[c.r.IntN(len(owners))], down)
		default:
			c.killed["agent"]++
			c.again(agents[c.r.IntN(len(agents))], down)
		}
	}
}

// again kills a node and starts it after a while.
func (c *trips) again(m *member, down time.Duration) {
	m.kill()
	after(c.t, down)
	m.launch()
}

// allEnd waits until the log holds the end of each trip and of each child.
func (c *trips) allEnd() {
	c.t.Helper()
	ended := map[string]bool{
		string(events.NameTaskProcessed): true, string(events.NameTaskUndone): true, string(events.NameChildAnswered): true,
	}
	var open []string
	last := time.Now()
	for before := -1; before != 0; after(c.t, look) {
		if c.log.look(c.t.Context()) != nil {
			continue
		}
		open = open[:0]
		for i := range c.count {
			if id := tripID(i); !ended[c.log.tasks[id]] {
				open = append(open, id+": "+c.log.tasks[id])
			}
		}
		for id, fact := range c.log.tasks {
			if strings.HasPrefix(id, "t-") && strings.Contains(id, "/") && !ended[fact] {
				open = append(open, id+": "+fact)
			}
		}
		if len(open) != before {
			before, last = len(open), time.Now()
		}
		if time.Since(last) > stalled {
			require.FailNow(c.t, fmt.Sprintf("%d tasks have not ended, and no further one for %s", len(open), stalled), "%v", open[:min(len(open), 20)])
		}
	}
}
