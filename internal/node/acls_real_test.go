package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/acls"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/internal/webhook"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
)

// guarded is an Apache Kafka with access lists, with a namespace whose administrator may do everything.
type guarded struct {
	*kafkatest.Real
	topics   kafka.Topics
	cluster  *kafka.Cluster
	producer *kafka.Producer
	serial   int
}

// guardedParts is the number of partitions, so that something can be sent to the wrong one.
const guardedParts = 2

// The lines of a role are taken away one at a time, and each time something of its work is refused: the error names what is missing and the
// command that prints what is needed. Nothing here asks for permissions beforehand, as `sagalog serve` does.
func TestRealACLsAreNeeded(t *testing.T) {
	g := &guarded{Real: kafkatest.Up(t, kafkatest.Options{SASL: true, ACLs: true}), topics: kafka.Topics{Namespace: "sagalog"}}
	g.cluster = g.Connect(t, "", "")
	var err error
	g.producer, err = kafka.NewProducer(g.cluster)
	require.NoError(t, err)
	defer g.producer.Close()
	t.Run("creating a namespace", g.creating)

	main, stop := g.main(t)
	for _, source := range []string{
		"workflow: order\nsteps:\n  only: {agent: stock, with: {id: \"${ task.id }\"}, retry: {attempts: 1, then: park}}\n",
		"workflow: waits\nsteps:\n  only: {agent: late}\n",
	} {
		_, faults, err := main.ApplyFile(t.Context(), "test.yaml", []byte(source), nil)
		require.NoError(t, err)
		require.Empty(t, faults)
	}
	t.Run("agent", g.agents)
	t.Run("producer", g.producers)
	hands := g.hire(t)
	t.Run("api", func(t *testing.T) { g.each(t, "api", acls.For(g.scope(), acls.API), g.api) })
	t.Run("projector", func(t *testing.T) { g.each(t, "projector", acls.For(g.scope(), acls.Projector), g.projector) })
	stop()
	t.Run("owner", func(t *testing.T) { g.each(t, "owner", acls.For(g.scope(), acls.Owner), g.owner) })
	t.Run("webhook", g.webhooks)
	hands()
}

func (g *guarded) scope() acls.Scope {
	return acls.Scope{Namespace: g.topics.Namespace, Agents: []string{"stock"}}
}

// each makes a user with all lines, and then takes each away once. What the operation would have implied stays: otherwise reading would seem to be
// needed where seeing suffices. act starts the work of the role, which ends with the returned function.
func (g *guarded) each(t *testing.T, user string, lines []acls.Line, act func(t *testing.T, user string, l acls.Line, said *logBook) func()) {
	g.AddUser(user)
	for _, l := range lines {
		g.Allow(user, grant(l, l.Operation))
	}
	for _, l := range lines {
		if l.Operation == acls.Create && !l.Prefixed && user != "stock" {
			continue // see creating
		}
		t.Run(l.Operation+" "+string(l.Resource)+" "+l.Name, func(t *testing.T) {
			began := time.Now()
			g.Forbid(user, grant(l, l.Operation))
			for _, o := range besides(lines, l) {
				g.Forbid(user, grant(o, o.Operation))
				defer g.Allow(user, grant(o, o.Operation))
			}
			implied := grant(l, acls.Describe)
			implies := slices.Contains([]string{acls.Read, acls.Write, acls.Delete}, l.Operation)
			if implies {
				g.Allow(user, implied)
			}
			said := &logBook{}
			stop := act(t, user, l, said)
			want := refusal(l)
			refused := func() bool { return slices.ContainsFunc(said.find(""), want.MatchString) }
			if !assertEventually(refused) {
				t.Errorf("nothing was refused that says %s, but:\n%s", want, strings.Join(said.find(""), "\n"))
			}
			stop()
			if implies {
				g.Forbid(user, implied)
			}
			g.Allow(user, grant(l, l.Operation))
			t.Logf("%.1f s", time.Since(began).Seconds())
		})
	}
}

// besides are the lines that imply a line, which therefore has to be taken away with them. Only lines that can be left out do that.
func besides(lines []acls.Line, l acls.Line) (list []acls.Line) {
	for _, o := range lines {
		if l.Operation == acls.Describe && o.Resource == l.Resource && o.Name == l.Name && o.Operation == acls.Read {
			list = append(list, o)
		}
	}
	return list
}

// deniedWithin bounds the wait for a refusal, which takes seconds at most.
const deniedWithin = 40 * time.Second

func assertEventually(condition func() bool) bool {
	for began := time.Now(); time.Since(began) < deniedWithin; time.Sleep(10 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}

// note adds an error to what was said.
func (b *logBook) note(err error) {
	if err != nil {
		b.logger().Error("refused", "error", err)
	}
}

// as connects as a user.
func (g *guarded) as(t *testing.T, user, role string, said *logBook) *kafka.Cluster {
	t.Helper()
	cfg := g.Config(user, "")
	cfg.Logger, cfg.Role = said.logger(), role
	c, err := kafka.Connect(cfg)
	require.NoError(t, err)
	return c
}

func owning(c *node.Config) { c.Roles, c.Alone = node.Roles{Owner: true}, true }

// open starts a node in the background, and then work beside it until the returned function is called. What goes wrong is noted.
func (g *guarded) open(t *testing.T, user string, said *logBook, work func(context.Context, *node.Node), change ...func(*node.Config)) func() {
	t.Helper()
	g.serial++
	cfg := node.Config{Namespace: g.topics.Namespace, Name: fmt.Sprintf("n%d", g.serial), Dir: t.TempDir(), Partitions: guardedParts, Logger: said.logger()}
	node.Trims(&cfg)
	for _, c := range change {
		c(&cfg)
	}
	cfg.Cluster = g.as(t, user, "owner", said)
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() {
		n, err := node.Open(ctx, cfg)
		if err != nil {
			said.note(err)
			return
		}
		if work != nil {
			tasks.Go(func() { work(ctx, n) })
		}
		said.note(n.Run(ctx))
	})
	return func() { cancel(); tasks.Wait(); cfg.Cluster.Close() }
}

// main starts the administrator's node and waits until it works.
func (g *guarded) main(t *testing.T) (*node.Node, func()) {
	t.Helper()
	opened := make(chan *node.Node, 1)
	said := &logBook{}
	stop := g.open(t, kafkatest.AdminUser, said, func(_ context.Context, n *node.Node) { opened <- n }, owning)
	select {
	case n := <-opened:
		return n, stop
	case <-time.After(deniedWithin):
		stop()
		require.FailNow(t, "the administrator's node did not open", "%s", strings.Join(said.find(""), "\n"))
		return nil, nil
	}
}

// creating grants the creation of one topic after another, in the order in which a node creates them.
func (g *guarded) creating(t *testing.T) {
	g.AddUser("maker")
	lines := acls.For(g.scope(), acls.Owner)
	for _, l := range lines {
		if l.Operation != acls.Create || l.Prefixed {
			g.Allow("maker", grant(l, l.Operation))
		}
	}
	for _, l := range lines {
		if l.Operation != acls.Create || l.Prefixed {
			continue
		}
		said, want := &logBook{}, refusal(l)
		stop := g.open(t, "maker", said, nil, owning)
		require.True(t, assertEventually(func() bool { return slices.ContainsFunc(said.find(""), want.MatchString) }), "%s, but: %s", want, said.find(""))
		stop()
		g.Allow("maker", grant(l, l.Operation))
	}
	opened := make(chan struct{})
	said := &logBook{}
	stop := g.open(t, "maker", said, func(context.Context, *node.Node) { close(opened) }, owning)
	defer stop()
	select {
	case <-opened:
	case <-time.After(deniedWithin):
		require.Fail(t, "the permissions do not suffice to make a namespace", "%s", said.find(""))
	}
}

// produce sends records as the administrator.
func (g *guarded) produce(t *testing.T, topic string, partition int32, records ...events.Record) {
	t.Helper()
	for i := range records {
		records[i].Topic, records[i].Partition = topic, partition
	}
	_, err := g.producer.ProduceSync(t.Context(), records...)
	require.NoError(t, err)
}

// urge submits tasks, some of which are wrong, and sends other inputs that are wrong or came to the wrong partition.
func (g *guarded) urge(t *testing.T) {
	t.Helper()
	g.serial++
	submit := func(id, workflow string, aside int32) {
		b, err := json.Marshal(map[string]any{"id": id, "workflow": workflow, "input": 1})
		require.NoError(t, err)
		g.produce(t, g.topics.Submissions(), (events.Home(id, guardedParts)+aside)%guardedParts, events.Record{Key: []byte(id), Value: b})
	}
	for i := range 6 {
		submit(fmt.Sprintf("good-%d-%d", g.serial, i), "order", int32(i%2))
	}
	submit(fmt.Sprintf("bad-%d", g.serial), "order", 0)
	submit(fmt.Sprintf("unknown-%d", g.serial), "nothing", 0)
	submit(fmt.Sprintf("waits-%d", g.serial), "waits", 0)
	r, err := events.EncodeRequest(events.Request{ID: fmt.Sprint("r", g.serial), Kind: events.RequestPause, Task: "good"}, events.Subject{ID: "r", Source: "/test", Time: events.At(time.Now())})
	require.NoError(t, err)
	g.produce(t, g.topics.Reports(), (events.Home("good", guardedParts)+1)%guardedParts, r, events.Record{Value: []byte("no report")})
}

// hire runs the agent of the tasks as the administrator, until the returned function is called.
func (g *guarded) hire(t *testing.T) func() {
	t.Helper()
	cluster := g.as(t, kafkatest.AdminUser, "agent", &logBook{})
	conn, err := agent.Attach(t.Context(), work.Over(cluster), stocked(), agent.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	return func() { cancel(); <-ended; cluster.Close() }
}

// stocked is the agent of the tasks. It fails for tasks whose names begin with bad.
func stocked() *agent.Registry {
	r := agent.NewRegistry()
	agent.Handle(r, "stock", func(_ context.Context, in input) (output, error) {
		if strings.HasPrefix(in.ID, "bad") {
			return output{}, agent.Permanent(errors.New("no"))
		}
		return output{}, nil
	})
	return r
}

func (g *guarded) owner(t *testing.T, user string, l acls.Line, said *logBook) func() {
	switch {
	case l.Resource == acls.Cluster:
		c := g.as(t, user, "owner", said)
		_, err := kafka.LogBytes(t.Context(), c, g.topics.Namespace)
		said.note(err)
		return c.Close
	case l.Operation == acls.Delete && l.Name == g.topics.Events():
		c := g.as(t, user, "owner", said)
		_, err := kafka.DeleteRecords(t.Context(), c, kafka.Offsets{l.Name: {0: 1}})
		said.note(err)
		return c.Close
	case l.Operation == acls.Create && l.Prefixed:
		kafkatest.DeleteTopic(t, g, g.topics.Work("late"))
	case l.Operation == acls.Read && l.Name == g.topics.Work(""):
		kafkatest.Create(t, g.cluster, g.topics.WorkSpec("ghost", guardedParts))
		g.produce(t, g.topics.Work("ghost"), 0, events.Record{Value: []byte("no request")}, events.Record{Value: []byte("no request")})
	}
	var work func(context.Context, *node.Node)
	if l.Resource == acls.Group && l.Prefixed {
		work = g.ghosts(t)
	}
	stop := g.open(t, user, said, work, owning, g.setting(l), func(c *node.Config) { c.Alone = l.Resource != acls.Group })
	g.urge(t)
	return stop
}

// setting lets a node record a setting, where the refusal to write definitions is awaited.
func (g *guarded) setting(l acls.Line) func(*node.Config) {
	return func(c *node.Config) {
		if l.Operation == acls.Write && l.Name == g.topics.Definitions() {
			c.Settings, c.SettingsSet = events.DefaultSettings(), []string{"remember_for"}
		}
	}
}

func (g *guarded) projector(t *testing.T, user string, l acls.Line, said *logBook) func() {
	return g.open(t, user, said, nil, g.setting(l), func(c *node.Config) { c.Roles = node.Roles{Projector: true} })
}

// applying returns work that applies one workflow after another.
func (g *guarded) applying(said *logBook) func(context.Context, *node.Node) {
	serial := g.serial
	return func(ctx context.Context, n *node.Node) {
		for i := 0; ctx.Err() == nil; i++ {
			_, faults, err := n.ApplyFile(ctx, "w.yaml", fmt.Appendf(nil, "workflow: w\nsteps:\n  only: {agent: \"a%d-%d\"}\n", serial, i), nil)
			said.note(err)
			for _, f := range faults {
				said.note(errors.New(fmt.Sprint(f)))
			}
			pause.For(ctx, askEvery)
		}
	}
}

// askEvery is the pause between requests to a node.
const askEvery = 50 * time.Millisecond

func (g *guarded) api(t *testing.T, user string, _ acls.Line, said *logBook) func() {
	apply, task := g.applying(said), fmt.Sprintf("http-%d", g.serial)
	stop := g.open(t, user, said, func(ctx context.Context, n *node.Node) {
		var both sync.WaitGroup
		defer both.Wait()
		both.Go(func() { apply(ctx, n) })
		for ctx.Err() == nil {
			said.note(call(ctx, n, "PUT", "/v1/tasks/"+task, `{"workflow":"order","input":1}`))
			said.note(call(ctx, n, "POST", "/v1/tasks/"+task+"/pause", `{}`))
			said.note(call(ctx, n, "GET", "/v1/dead-letters", ""))
			said.note(call(ctx, n, "GET", "/v1/alerts?open=false", ""))
			pause.For(ctx, askEvery)
		}
	}, func(c *node.Config) { c.Roles, c.HTTP = node.Roles{API: true}, "127.0.0.1:0" })
	g.urge(t)
	g.produce(t, g.topics.Alerts(), 0, events.Record{Value: []byte("no alert")})
	return stop
}

// call calls the API, and returns what it refuses as an error.
func call(ctx context.Context, n *node.Node, method, path, body string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+n.Addr()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil // the node is about to end, or waits
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode < 400 {
		return nil
	}
	return fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
}

func (g *guarded) webhooks(t *testing.T) {
	const user = "hooked"
	lines := acls.For(g.scope(), acls.Webhook)
	g.each(t, user, lines, func(t *testing.T, user string, l acls.Line, said *logBook) func() {
		// What an owner needs besides is granted, and taken away again where the webhook needs it too.
		for _, o := range acls.For(g.scope(), acls.Owner) {
			if o.Name != l.Name {
				g.Allow(user, grant(o, o.Operation))
			}
		}
		if l.Name == g.topics.Events() {
			g.Allow(user, grant(l, acls.Write, acls.DescribeConfigs))
		}
		if l.Name == g.topics.Alerts() {
			g.Allow(user, grant(l, acls.Write, acls.DescribeConfigs))
		}
		keys, err := webhook.ParseKeys("whsec_" + webhookSecret)
		require.NoError(t, err)
		sender, err := webhook.New(webhook.Config{URL: "http://127.0.0.1:1/hook", Keys: keys.Always()})
		require.NoError(t, err)
		stop := g.open(t, user, said, nil, owning, func(c *node.Config) { c.Webhook = &node.Webhook{Sender: sender, FromStart: true} })
		g.urge(t)
		return stop
	})
}

func (g *guarded) agents(t *testing.T) {
	lines := acls.For(g.scope(), acls.Agent)
	g.each(t, "stock", lines, func(t *testing.T, user string, l acls.Line, said *logBook) func() {
		if l.Operation == acls.Create {
			kafkatest.DeleteTopic(t, g, l.Name)
		}
		g.serial++
		name := fmt.Sprintf("a%d", g.serial)
		cluster := g.as(t, user, "agent --agent stock", said)
		conn, err := agent.Attach(t.Context(), work.Over(cluster), stocked(), agent.Config{Instance: name, Log: said.logger()})
		if err != nil {
			said.note(err)
			return cluster.Close
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); said.note(conn.Run(ctx)) }()
		g.urge(t)
		rival := func() {}
		if l.Name == g.topics.Presence() && l.Operation == acls.Read {
			rival = g.rival(t, name)
		}
		return func() { rival(); cancel(); <-ended; cluster.Close() }
	})
}

// rival joins the group of the agent under the name of an instance that is a member, which fences that.
func (g *guarded) rival(t *testing.T, name string) func() {
	group := kafka.Groups{Namespace: g.topics.Namespace}.Agents("stock")
	require.Eventually(t, func() bool {
		members, err := g.cluster.StaticMembers(t.Context(), group)
		return err == nil && slices.Contains(members, name)
	}, deniedWithin, 10*time.Millisecond)
	other, err := kafka.NewGroup(g.cluster, kafka.GroupConfig{Group: group, Topics: []string{g.topics.Work("stock")}, InstanceID: name, MembershipOnly: true})
	require.NoError(t, err)
	return func() { _ = other.Leave(context.Background()) }
}

func (g *guarded) producers(t *testing.T) {
	g.each(t, "shop", acls.For(g.scope(), acls.Producer), func(t *testing.T, user string, _ acls.Line, said *logBook) func() {
		cfg := g.Config(user, "")
		c, err := client.KafkaWith(t.Context(), client.KafkaConfig{Brokers: cfg.Brokers, SASLMechanism: cfg.SASL.Mechanism, User: user, Password: cfg.SASL.Password})
		if err != nil {
			said.note(err)
			return func() {}
		}
		_, err = c.Submit(t.Context(), client.Submission{Workflow: "order", Input: []byte("1")})
		said.note(err)
		return c.Close
	})
}
