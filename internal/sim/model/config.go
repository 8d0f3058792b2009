package model

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Begin is the time at which every world starts, and Step is how far the clock moves at once: more than the longest
// wait in the model.
const (
	Begin events.Instant = 1_800_000_000_000
	Step                 = 20 * time.Second
)

// Budget names something that may happen only a limited number of times in a world, so that the search ends.
type Budget int

// The budgets. A fault without one does not happen.
const (
	// Reassigns: the group gives a partition to the other node.
	Reassigns Budget = 0
	// StaleClaims: a node claims although the group has replaced it, because it has not learned that yet.
	StaleClaims Budget = 1
	// Crashes: a node loses its memory but keeps its store.
	Crashes Budget = 2
	// OlderStores: a node crashes and finds its store as it was before the last commit.
	OlderStores Budget = 3
	// LostStores: a node crashes and finds no store.
	LostStores Budget = 4
	// LostAppends: an append never reaches the log, and its owner gets no error.
	LostAppends Budget = 5
	// Doubles: a second copy of an append is in flight.
	Doubles Budget = 6
	// Reorders: an append lands before an older one.
	Reorders Budget = 7
	// Splits: only the first record of an append lands at first.
	Splits Budget = 8
	// Unknowns: the outcome of an append, or of a claim, stays unknown to its owner.
	Unknowns Budget = 9
	// LateAppends: an append lands after its owner has ended the epoch.
	LateAppends Budget = 10
	// LateEffects: an effect lands after its sender has ended the epoch.
	LateEffects Budget = 11
	// SlowAcks: an effect lands, but its sender gets the acknowledgement later.
	SlowAcks Budget = 12
	// Refusals: the broker refuses an effect for good.
	Refusals Budget = 13
	// Passes: the clock passes the next step.
	Passes Budget = 14
	// Failures: an agent reports a result other than success.
	Failures Budget = 15
	// Repeats: an agent reports again.
	Repeats Budget = 16
	// Sleeps: an owner's process stops for a while, and wakes up. If there are Reassigns too, its epoch is over by then; other
	// sleeps are searched in configurations without Reassigns.
	Sleeps Budget = 17

	// Trims: the oldest submission is deleted, judged or not. A partition that stops because of that continues when an operator
	// has accepted the loss, which always happens eventually.
	Trims Budget = 18

	// Beats: an agent sends progress. The acknowledgement comes eventually.
	Beats Budget = 19

	// OwnTrims: an owner deletes the inputs that nobody needs any more.
	OwnTrims Budget = 20

	// Copies: somebody begins to copy the namespace. The copier goes on until the copy exists.
	Copies Budget = 21
	// CopierCrashes: the copier dies, and begins again.
	CopierCrashes Budget = 22
	// Checkpoints: a checkpoint of a partition's store is made, which replaces the one before.
	Checkpoints Budget = 23
	// Losses: the log is lost, with all nodes, and the namespace is copied from checkpoints.
	Losses Budget = 24

	budgets = 25
)

// Kind is the kind of input that a client sends.
type Kind int

// The kinds of inputs.
const (
	// Submit submits the task, always with the same content.
	Submit Kind = 0
	// Conflict submits the task with other content.
	Conflict Kind = 1
	// Cancel asks to cancel the task, and Retry to retry it.
	Cancel Kind = 2
	Retry  Kind = 3
	// Garbage cannot be read.
	Garbage Kind = 4
	// Marker is a transaction marker.
	Marker Kind = 5
	// Lethal submits the task with an input that ends the process that judges it.
	Lethal Kind = 6
	// Pause, Resume and Terminate ask for what they say.
	Pause     Kind = 7
	Resume    Kind = 8
	Terminate Kind = 9
	// Skip, Complete and Fail decide about a step.
	Skip     Kind = 10
	Complete Kind = 11
	Fail     Kind = 12
	// Signal sends the signal go to the task, through submissions.
	Signal Kind = 13
	// PauseLimit and ResumeLimit are about the limit that Task names.
	PauseLimit  Kind = 14
	ResumeLimit Kind = 15
	// Rerun asks to rerun the task.
	Rerun Kind = 16
	// PauseAgent and ResumeAgent are about the agent that Task names. All nodes hear of it at once.
	PauseAgent  Kind = 17
	ResumeAgent Kind = 18
)

// Client describes an input that clients send.
type Client struct {
	Kind Kind
	Task string
	// Workflow of the task; "one" if empty.
	Workflow string
	// NotBefore is that of the submission.
	NotBefore string
	// Asks is what a request says besides its kind and its task.
	Asks events.Request
	// Partition to which it is sent, not always the home of the task.
	Partition int32
	// Times is how often it may be sent; AtStart says that it is in the topic once when the world begins.
	Times   int
	AtStart bool
	// Replies asks for replies in the topic r.
	Replies bool
	// Schedule is the schedule that sends the submission, when the world begins.
	Schedule string
}

// Outcome is what an agent reports.
type Outcome int

// The outcomes. The first is always possible; the others cost a budget and must be listed.
const (
	Completed     Outcome = 0
	Failed        Outcome = 1
	FailedNone    Outcome = 2
	FailedForGood Outcome = 3
	FailedInDoubt Outcome = 4
)

// Config bounds a world.
type Config struct {
	Name string
	// Partitions of the namespace; the nodes own the first Full of them, by default 1. The others only receive
	// forwarded inputs.
	Partitions, Full int32
	Nodes            int
	Budgets          map[Budget]int
	Clients          []Client
	Outcomes         []Outcome
	// InFlight, BatchFacts and Tasks are the owner's; 2, 1 and all if not given.
	InFlight, BatchFacts, Tasks int
	// PassEvery is the owner's; 1000 if not given.
	PassEvery int
	// Off switches rules of the owner off.
	Off supervisor.Rule
	// UnknownByTick makes the owner find out by a timeout that an append has no answer, instead of by an error.
	UnknownByTick bool
	// ClaimAcks acknowledges claims. An owner ignores the answer, unless RuleReadBack is off.
	ClaimAcks bool
	// Catalog leaves the stamp of the definition out of submissions, so that the owner asks for definitions.
	Catalog bool
	// Deleted is a workflow whose definition was deleted after the partition adopted it.
	Deleted string
	// Replays makes an owner that takes over wait for the facts that it reads again; otherwise it gets them at once.
	Replays bool
	// Pages gives them to it one at a time.
	Pages bool
	// Coarse joins actions whose separate order makes no difference: a node that learns that it is assigned reads its
	// log at once (it could just as well learn it later), and a node that owns its partition reads an input at once if
	// only that one has something new.
	Coarse bool
	// LateStore makes an owner write its store only when nothing is in flight; otherwise it writes with each batch.
	LateStore bool
	// Delays makes every effect without an answer delay its destination when the clock moves.
	Delays bool
	// Settings makes the first node know later settings than the second, which knows settings from before the partition's.
	Settings bool
	// Limit is the Max of the object of the limit bank; 0 if it does not exist. If OldLimit is set, the second node knows only an older object, with
	// another Max.
	Limit    int
	OldLimit bool
	// Rate is that of the limit.
	Rate string
	// Older is the number of the node, from 1, whose build is older: it understands level 1, while the namespace has level 2 already,
	// which the node has not read. 0 means that all nodes have one build.
	Older int
	// Jump makes the clock pass two hours at first, then a quarter of an hour at a time.
	Jump bool
	// Wrong makes the clock of the first node eight days ahead of the world's. The second node knows that its clock is right.
	Wrong bool
	// Calm makes the clock move only when nothing is under way.
	Calm bool
	// CalmReassigns makes the group give a partition to another node only when nothing is under way.
	CalmReassigns bool
	// Carries makes a carry begin when the clock moves.
	Carries bool
	// HashEvery is that of the settings; the default if not given.
	HashEvery int
	// Alerts sends alerts like other effects; otherwise they arrive at once.
	Alerts bool
	// Copy is the number of partitions of the copy of the namespace.
	Copy int32
	// Stops makes all nodes stop before the namespace is copied, as they should: the whole copy is one action then.
	Stops bool
	// copied says that this is the namespace of the copy.
	copied bool
}

// inCopy returns the configuration of the copy: one node, which knows nothing of the old namespace. Clients know where the tasks live.
func (c Config) inCopy() Config {
	c.Clients = slices.Clone(c.Clients)
	for i := range c.Clients {
		c.Clients[i].Partition = events.Home(c.Clients[i].Task, c.Copy)
	}
	c.Partitions, c.Full, c.Nodes, c.copied = c.Copy, c.Copy, 1, true
	return c
}

// namespaceID is that of all namespaces of the model: a copy keeps the ID.
var namespaceID = uuid.MustParse("5a9a1065-0000-4000-8000-000000000001")

func (c Config) withDefaults() Config {
	set := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	if c.Full == 0 {
		c.Full = 1
	}
	if c.Partitions == 0 {
		c.Partitions = c.Full
	}
	set(&c.Nodes, 2)
	set(&c.InFlight, 2)
	set(&c.BatchFacts, 1)
	set(&c.Tasks, 1<<20)
	set(&c.PassEvery, 1000)
	c.Clients = append([]Client(nil), c.Clients...)
	for i := range c.Clients {
		if c.Clients[i].Workflow == "" {
			c.Clients[i].Workflow = "one"
		}
	}
	return c
}

// lethal says whether an input ends processes.
func (c *Config) lethal() bool {
	return slices.ContainsFunc(c.Clients, func(x Client) bool { return x.Kind == Lethal })
}

// rememberFor is how long a task is remembered, and a request held.
const rememberFor = 5 * time.Second

// replyTopic takes the replies, and replyFor is how long one is tried where destinations are delayed: longer than two steps of the clock.
const (
	replyTopic = "r"
	replyFor   = 50 * time.Second
)

// settings are adopted before the world begins.
func settings() events.Settings {
	s := events.DefaultSettings()
	s.Grace, s.HeldFor, s.RememberFor = events.Duration(time.Second), events.Duration(rememberFor), events.Duration(rememberFor)
	s.ReplyTopics = replyTopic
	s.KeepLog = 0
	s.RemindAfter = 0 // a reminder decides nothing and waits for nothing
	return s
}

// settings are those of the configuration.
func (c *Config) settings() events.Settings {
	s := settings()
	if c.Carries {
		s.KeepLog = events.Duration(4 * Step) // so a carry begins with each step of the clock
	}
	if c.HashEvery > 0 {
		s.HashEvery = c.HashEvery
	}
	return s
}

// settingsAt is the offset of the settings that are adopted before the world begins, if nodes know others.
const settingsAt = 2

// owner returns the configuration of a partition's owner.
func (c *Config) owner(node int, part int32) supervisor.Config {
	const never = time.Duration(1 << 60)
	o := supervisor.Config{
		Partition: part, Partitions: c.Partitions, Node: c.nodeName(node), Namespace: "model", NamespaceID: namespaceID, Settings: c.settings(),
		BatchFacts: c.BatchFacts, InFlight: c.InFlight, Tasks: c.Tasks, PassEvery: c.PassEvery, Off: c.Off,
		UnknownAfter: never, LagMax: never, DelayAfter: never, SlowAfter: never,
		// Less than a millisecond means at once: an owner that may continue does so.
		RetryPause: 1, DeposedPause: 1, Deleted: c.deleted,
	}
	if c.Settings {
		o.SettingsOffset = int64(settingsAt + 1 - 2*node)
		o.Settings.TaskFacts -= node
	}
	if c.Older > 0 {
		o.Level, o.MaxLevel = newerLevel, newerLevel
		if c.older(node) {
			o.Level, o.MaxLevel = events.FirstLevel, events.FirstLevel
		}
	}
	if c.Delays {
		o.DelayAfter, o.ReplyFor = 1, replyFor
	}
	if c.LateStore {
		o.FlushEvery = -1
	}
	if c.UnknownByTick {
		o.UnknownAfter = -1 // every tick finds that the answer is overdue
	}
	return o
}

// newerLevel is the level of the namespace and of the newer build, if there are two.
const newerLevel = 2

// older says whether a node has the older build.
func (c *Config) older(node int) bool { return node+1 == c.Older }

// nodeName names a node. Those of a copy have other names than those of the old namespace.
func (c *Config) nodeName(i int) string {
	if c.copied {
		i += 2
	}
	return nodeName(i)
}

func nodeName(i int) string { return string(rune('A' + i)) }

// at returns the time after the clock has moved n times.
func (c *Config) at(clock uint8) events.Instant {
	if c.Jump && clock > 0 {
		return Begin.Add(2*time.Hour + time.Duration(clock-1)*15*time.Minute)
	}
	return Begin.Add(time.Duration(clock) * Step)
}
